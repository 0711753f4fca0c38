package sealed

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How a key management plugin is asked. What it said is good for a while, so that a plugin that restarts stops no writes.
const (
	kmsTimeout = 3 * time.Second  // of one question, unless the file says otherwise
	kmsAskEach = time.Minute      // which key it uses now
	kmsGood    = 3 * time.Minute  // after which nothing is written without a new answer
	kmsPause   = 10 * time.Second // after a failure
	kmsSeeds   = 1024             // that are remembered
	seedSize   = 32
	infoSize   = 32
)

// kms is a provider of kind kms, version 2: a plugin on this machine keeps the key that encrypts a seed, and of the seed and
// random bytes that stand in front of each value comes the key of that value.
//
// Unlike Kubernetes, the plugin is asked for its key when something is written or its health is asked for, once a minute at
// most, not by a timer: idle means idle. Only while values wait for it is it asked again and again (Store.await).
type kms struct {
	name    string
	conn    Conn
	timeout time.Duration
	now     func() time.Time

	asking sync.Mutex // held while the plugin is asked for its key, and not by who only reads what it said

	mu     sync.Mutex
	use    *seed // for what is written; nil: none yet
	tried  time.Time
	failed error // of the last try; nil: it succeeded
	known  map[[sha256.Size]byte]*seed
	silent time.Time // when it last did not answer what a seed is; zero: it did
}

// A pluginError says that a plugin could not be asked, or did not do what was asked. It may do so later.
type pluginError struct {
	error
	of *kms
}

func (e *pluginError) Unwrap() error { return e.error }

// errSilent is the error of values whose seed is not asked for, as the plugin did not answer a moment ago: each would wait as long.
var errSilent = errors.New("it did not answer a moment ago")

// A seed is the secret that keys of values are derived from, and its encryption by the plugin.
type seed struct {
	object sealedObject // without data
	secret []byte
	until  time.Time // nothing is written with it after this
}

// A Conn is a connection to a plugin. Its methods may be called from any goroutine.
type Conn interface {
	// Ask calls a method with a message in wire format and returns the answer's.
	Ask(ctx context.Context, method string, in []byte) ([]byte, error)
	// Close ends the connection.
	Close() error
}

// Dial sets up the connection to the plugin of that name at a socket's path, which need not be there yet: package plugin's. A program
// without one takes no configuration that names plugins.
type Dial func(name, path string) (Conn, error)

func newKMS(dial Dial, name, path string, timeout time.Duration, now func() time.Time) (*kms, error) {
	if dial == nil {
		return nil, errors.New("this program has no part that speaks with plugins (cluster.Config.Kit)")
	}
	conn, err := dial(name, path)
	if err != nil {
		return nil, err
	}
	return &kms{name: name, conn: conn, timeout: timeout, now: now, known: map[[sha256.Size]byte]*seed{}}, nil
}

func (k *kms) sealer() *sealer {
	return &sealer{prefix: []byte(string(sealedPrefix) + "kms:v2:" + k.name + ":"), seal: k.seal, open: k.open, fresh: k.fresh,
		healthy: k.healthy, close: k.conn.Close}
}

// ask calls a method of the plugin.
func (k *kms) ask(ctx context.Context, method string, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	out, err := k.conn.Ask(ctx, "/v2.KeyManagementService/"+method, in)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if ctx.Err() != nil {
			k.silent = k.now()
		}
		return nil, &pluginError{fmt.Errorf("ask the plugin %s (%s): %w", k.name, method, err), k}
	}
	return out, nil
}

// answers says that the plugin is worth asking.
func (k *kms) answers() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent.IsZero() || k.now().Sub(k.silent) >= kmsPause
}

// healthy asks the plugin how it is, and learns which key it uses.
func (k *kms) healthy(ctx context.Context) error {
	k.asking.Lock()
	defer k.asking.Unlock()
	return k.look(ctx)
}

// look asks which key the plugin uses, and gets a new seed when it is another one. k.asking is held.
func (k *kms) look(ctx context.Context) error {
	began := k.now()
	k.mu.Lock()
	use := k.use
	k.mu.Unlock()
	fresh, err := k.renew(ctx, use)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tried, k.failed = began, err; err != nil {
		return err
	}
	k.silent = time.Time{}
	fresh.until = began.Add(kmsGood)
	if k.use = fresh; fresh != use {
		k.remember(fresh)
	}
	return nil
}

// renew returns the seed in use, or another one if the plugin uses another key by now.
func (k *kms) renew(ctx context.Context, use *seed) (*seed, error) {
	out, err := k.ask(ctx, "Status", nil)
	if err != nil {
		return nil, err
	}
	s, err := parseStatus(out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the plugin %s: %w", k.name, err)
	case s.healthz != "ok":
		return nil, fmt.Errorf("the plugin %s is not well: %q", k.name, s.healthz)
	case s.version != "v2" && s.version != "v2beta1":
		return nil, fmt.Errorf("the plugin %s speaks version %q, expected v2 or v2beta1", k.name, s.version)
	}
	if err := checkKeyID(s.keyID); err != nil {
		return nil, fmt.Errorf("the plugin %s: %w", k.name, err)
	}
	if use != nil && use.object.keyID == s.keyID {
		return use, nil
	}
	fresh, err := k.newSeed(ctx)
	if err != nil {
		return nil, err
	}
	if fresh.object.keyID != s.keyID {
		return nil, fmt.Errorf("the plugin %s encrypts with the key %q and says that it uses %q: it is changing keys", k.name,
			fresh.object.keyID, s.keyID)
	}
	return fresh, nil
}

// newSeed has the plugin encrypt random bytes.
func (k *kms) newSeed(ctx context.Context) (*seed, error) {
	s := &seed{secret: make([]byte, seedSize)}
	_, _ = rand.Read(s.secret) // never fails
	out, err := k.ask(ctx, "Encrypt", encryptRequest(s.secret, uid()))
	if err != nil {
		return nil, err
	}
	if s.object, err = parseEncrypted(out); err == nil {
		s.object.kind = kindSeed
		err = s.object.check()
	}
	if err != nil {
		return nil, fmt.Errorf("the answer of the plugin %s: %w", k.name, err)
	}
	return s, nil
}

func uid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// remember keeps a seed for what will be read. k.mu is held.
func (k *kms) remember(s *seed) {
	for old := range k.known {
		if len(k.known) < kmsSeeds {
			break
		}
		delete(k.known, old)
	}
	k.known[s.object.sum()] = s
}

// current is the seed to write with. Who finds that it is time asks the plugin; the others go on with what they have meanwhile, if that is
// good.
func (k *kms) current() (*seed, error) {
	if due, good := k.state(); due && (!good || k.asking.TryLock()) {
		if !good {
			k.asking.Lock()
		}
		if due, _ := k.state(); due { // nobody else has asked meanwhile
			_ = k.look(context.Background()) // its error is reported below, if there is no seed
		}
		k.asking.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.use == nil || k.now().After(k.use.until) {
		return nil, k.failed
	}
	return k.use, nil
}

// state says whether it is time to ask the plugin, and whether the seed in use is good.
func (k *kms) state() (due, good bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pause := kmsAskEach
	if k.failed != nil {
		pause = kmsPause
	}
	now := k.now()
	return k.tried.IsZero() || now.Sub(k.tried) >= pause, k.use != nil && !now.After(k.use.until)
}

func (k *kms) seal(plain, extra []byte) ([]byte, error) {
	s, err := k.current()
	if err != nil {
		return nil, err
	}
	out := make([]byte, infoSize)
	_, _ = rand.Read(out) // never fails
	aead, err := derive(s.secret, out)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	o := s.object
	o.data = aead.Seal(append(out, nonce...), nonce, plain, extra)
	return o.marshal(), nil
}

func (k *kms) open(sealed, extra []byte) ([]byte, error) {
	o, err := parseObject(sealed)
	if err != nil {
		return nil, err
	}
	secret, err := k.secretOf(o)
	if err != nil {
		return nil, err
	}
	data := o.data
	var aead cipher.AEAD
	if o.kind == kindSeed {
		if len(data) < infoSize {
			return nil, errShort
		}
		aead, err = derive(secret, data[:infoSize])
		data = data[infoSize:]
	} else {
		aead, err = gcm(secret)
	}
	if err != nil {
		return nil, err
	}
	n := aead.NonceSize()
	if len(data) < n {
		return nil, errShort
	}
	return aead.Open(nil, data[:n], data[n:], extra)
}

// secretOf is the plain seed of a value: remembered, or decrypted by the plugin.
func (k *kms) secretOf(o sealedObject) ([]byte, error) {
	sum := o.sum()
	k.mu.Lock()
	s := k.known[sum]
	k.mu.Unlock()
	if s != nil {
		return s.secret, nil
	}
	if !k.answers() {
		return nil, &pluginError{fmt.Errorf("ask the plugin %s: %w", k.name, errSilent), k}
	}
	out, err := k.ask(context.Background(), "Decrypt", decryptRequest(o, uid()))
	if err != nil {
		return nil, err
	}
	s = &seed{object: o}
	s.object.data = nil
	if s.secret, err = parsePlain(out); err != nil {
		return nil, fmt.Errorf("the answer of the plugin %s: %w", k.name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remember(s)
	return s.secret, nil
}

// fresh says that a value is sealed by the key that the plugin uses now.
func (k *kms) fresh(sealed []byte) bool {
	o, err := parseObject(sealed)
	if err != nil {
		return false
	}
	s, err := k.current()
	return err != nil || o.keyID == s.object.keyID && o.kind == s.object.kind // a plugin that is away makes nothing stale
}

// derive makes the cipher of one value: HKDF's second half alone, since the seed is random.
func derive(secret, info []byte) (cipher.AEAD, error) {
	if len(secret) < seedSize {
		return nil, errors.New("the seed is too short")
	}
	key, err := hkdf.Expand(sha256.New, secret, string(info), 32)
	if err != nil {
		return nil, err
	}
	return gcm(key)
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
