package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	upstreamaes "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	upstream "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	wire "github.com/kloop-dev/kloop/store/sealed/plugin"
)

func dialPlugin(name, path string) (Conn, error) { return wire.Dial(name, path) }

// A plugin is a key management plugin whose encryption is to turn all bits.
type plugin struct {
	mu      sync.Mutex
	version string
	health  string
	keyID   string
	broken  error
	asked   map[string]int
	stall   func(method string) // before an answer; nil: at once
}

func turn(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = ^b[i]
	}
	return out
}

func (p *plugin) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *plugin) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[method]
}

func (p *plugin) answer(method string, in []byte) ([]byte, error) {
	if p.stall != nil {
		p.stall(method)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[method]++
	if p.broken != nil {
		return nil, p.broken
	}
	field := func(n int) (out []byte) {
		_ = fields(in, func(m protowire.Number, v []byte, _ uint64) error {
			if int(m) == n {
				out = v
			}
			return nil
		})
		return out
	}
	switch method {
	case "Status":
		return appendBytes(appendBytes(appendBytes(nil, 1, []byte(p.version)), 2, []byte(p.health)), 3, []byte(p.keyID)), nil
	case "Encrypt":
		return appendMap(appendBytes(appendBytes(nil, 1, turn(field(1))), 2, []byte(p.keyID)), 3,
			map[string][]byte{"a.example.com": []byte("note")}), nil
	}
	note, err := addEntry(nil, field(4))
	if err != nil || len(note) != 1 || string(note["a.example.com"]) != "note" && string(note[""]) != "" {
		return nil, fmt.Errorf("annotations %v", note)
	}
	return appendBytes(nil, 1, turn(field(1))), nil
}

// serve runs the plugin at a socket of its own.
func serve(t *testing.T) (*plugin, string) {
	t.Helper()
	p := &plugin{version: "v2", health: "ok", keyID: "k1", asked: map[string]int{}}
	path := filepath.Join(t.TempDir(), "kms.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	method := func(name string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			out, err := p.answer(name, in)
			return &out, err
		}}
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "v2.KeyManagementService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{method("Status"), method("Encrypt"), method("Decrypt")}}, p)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return p, path
}

func open(t *testing.T, path string, now func() time.Time) *sealer {
	t.Helper()
	k, err := newKMS(dialPlugin, "one", path, 30*time.Second, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k.sealer()
}

func TestKMS(t *testing.T) {
	p, path := serve(t)
	now := time.Now()
	clock := func() time.Time { return now }
	s, key := open(t, path, clock), []byte("/registry/secrets/ns/s")
	write := func() []byte {
		t.Helper()
		out, err := s.seal([]byte("secret"), key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := write()
	if bytes.Contains(first, []byte("secret")) || !s.fresh(first) {
		t.Errorf("%q", first)
	}
	if second := write(); bytes.Equal(first, second) || p.count("Encrypt") != 1 || p.count("Status") != 1 {
		t.Errorf("one seed is enough for all values: %v", p.asked)
	}
	if got, err := s.open(first, key); err != nil || string(got) != "secret" || p.count("Decrypt") != 0 {
		t.Errorf("%q %v", got, err)
	}
	if _, err := s.open(first, []byte("/registry/secrets/ns/other")); err == nil {
		t.Error("a value was moved to another key of the store")
	}
	again := open(t, path, clock) // after a restart
	for range 2 {
		if got, err := again.open(first, key); err != nil || string(got) != "secret" || p.count("Decrypt") != 1 {
			t.Errorf("%q %v %v", got, err, p.asked)
		}
	}

	p.set(func() { p.keyID = "k2" })
	now = now.Add(kmsAskEach)
	if s.fresh(first) {
		t.Error("a value of the old key is not to be written anew")
	}
	next := write()
	if o, err := parseObject(next); err != nil || o.keyID != "k2" || p.count("Encrypt") != 2 {
		t.Error(o, err, p.asked)
	}
	if got, err := s.open(first, key); err != nil || string(got) != "secret" {
		t.Errorf("a value of the old key: %q %v", got, err)
	}

	p.set(func() { p.broken = errors.New("gone fishing") })
	now = now.Add(kmsAskEach)
	write() // the last answer is good for a while
	if err := s.healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "gone fishing") {
		t.Error(err)
	}
	now = now.Add(kmsGood)
	if _, err := s.seal([]byte("x"), key); err == nil || !strings.Contains(err.Error(), "gone fishing") {
		t.Error(err)
	}
	asked := p.count("Status")
	if _, err := s.seal([]byte("x"), key); err == nil || p.count("Status") != asked {
		t.Error("a plugin that just failed is asked at once: ", err)
	}
	if !s.fresh(next) {
		t.Error("a plugin that is away makes values stale")
	}
	p.set(func() { p.broken = nil })
	now = now.Add(kmsPause)
	write()
}

// TestSlowPluginHoldsUpNobody: while one writer asks a slow plugin which key it uses, others write and read with what is known.
func TestSlowPluginHoldsUpNobody(t *testing.T) {
	p, path := serve(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	p.stall = func(method string) {
		if method == "Status" && p.count("Status") == 1 { // the second time
			close(asked)
			<-goOn
		}
	}
	var later atomic.Bool
	now := time.Now()
	s, key := open(t, path, func() time.Time {
		if later.Load() {
			return now.Add(kmsAskEach)
		}
		return now
	}), []byte("/registry/secrets/ns/s")
	first, err := s.seal([]byte("secret"), key)
	if err != nil {
		t.Fatal(err)
	}
	later.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := s.seal([]byte("x"), key)
		done <- err
	}()
	<-asked
	if _, err := s.seal([]byte("y"), key); err != nil {
		t.Error(err)
	}
	if got, err := s.open(first, key); err != nil || string(got) != "secret" || !s.fresh(first) {
		t.Errorf("%q %v", got, err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKMSHealth(t *testing.T) {
	p, path := serve(t)
	s := open(t, path, time.Now)
	for _, x := range []struct {
		name string
		set  func()
		text string
	}{
		{"well", func() {}, ""},
		{"tired", func() { p.health = "tired" }, `is not well: "tired"`},
		{"another version", func() { p.health, p.version = "ok", "v1" }, `speaks version "v1"`},
		{"no key id", func() { p.version, p.keyID = "v2beta1", "" }, "the key's id is empty"},
		{"key id too long", func() { p.keyID = strings.Repeat("k", maxKeyID+1) }, "expected 1024 at most"},
		{"well again", func() { p.keyID = "k3" }, ""},
	} {
		p.set(x.set)
		if err := s.healthy(t.Context()); (err == nil) != (x.text == "") || err != nil && !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v, want %q", x.name, err, x.text)
		}
	}
}

// TestKMSUpstream reads what upstream's code sealed, in both of its forms, and lets it read ours.
func TestKMSUpstream(t *testing.T) {
	p, path := serve(t)
	s, key := open(t, path, time.Now), []byte("/registry/secrets/ns/s")
	where := value.DefaultContext(key)
	seed := bytes.Repeat([]byte{7}, upstreamaes.MinSeedSizeExtendedNonceGCM)
	derived, err := upstreamaes.NewHKDFExtendedNonceGCMTransformer(seed)
	if err != nil {
		t.Fatal(err)
	}
	plain, plainKey, err := upstreamaes.NewGCMTransformerWithUniqueKeyUnsafe()
	if err != nil {
		t.Fatal(err)
	}
	for kind, x := range map[upstream.EncryptedDEKSourceType]struct {
		by     value.Transformer
		secret []byte
	}{
		upstream.EncryptedDEKSourceType_HKDF_SHA256_XNONCE_AES_GCM_SEED: {derived, seed},
		upstream.EncryptedDEKSourceType_AES_GCM_KEY:                     {plain, plainKey},
	} {
		data, err := x.by.TransformToStorage(t.Context(), []byte("theirs"), where)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := proto.Marshal(&upstream.EncryptedObject{EncryptedData: data, KeyID: p.keyID, EncryptedDEKSource: turn(x.secret),
			EncryptedDEKSourceType: kind})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.open(stored, key); err != nil || string(got) != "theirs" {
			t.Errorf("%s: %q %v", kind, got, err)
		}
	}
	ours, err := s.seal([]byte("ours"), key)
	if err != nil {
		t.Fatal(err)
	}
	o := &upstream.EncryptedObject{}
	if err := proto.Unmarshal(ours, o); err != nil {
		t.Fatal(err)
	}
	derived, err = upstreamaes.NewHKDFExtendedNonceGCMTransformer(turn(o.EncryptedDEKSource))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := derived.TransformFromStorage(t.Context(), o.EncryptedData, where); err != nil || string(got) != "ours" ||
		o.EncryptedDEKSourceType != upstream.EncryptedDEKSourceType_HKDF_SHA256_XNONCE_AES_GCM_SEED ||
		string(o.Annotations["a.example.com"]) != "note" {
		t.Errorf("%q %v %v", got, err, o)
	}
}

func TestKMSConfig(t *testing.T) {
	const head = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: ["
	for entry, why := range map[string]string{
		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///x'}}":                               "",
		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///@x', timeout: 5s}}, {identity: {}}": "",
		"{kms: {name: n, endpoint: 'unix:///x'}}":                                               "protocol is deprecated and off",
		"{kms: {apiVersion: v3, name: n, endpoint: 'unix:///x'}}":                               "unsupported apiVersion",
		"{kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///x'}}":                           "without colons",
		"{kms: {apiVersion: v2, name: n, endpoint: 'tcp://x'}}":                                 "must be a socket",
		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///x', timeout: 0s}}":                  "must be above 0",
		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///x', cachesize: 5}}":                 "not supported in v2",
		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///x'}, identity: {}}":                 "2 are given",

		"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///x'}}, " +
			"{kms: {apiVersion: v2, name: n, endpoint: 'unix:///y'}}": "names must be unique",
	} {
		t.Run(entry, func(t *testing.T) {
			r, err := Parse([]byte(head+entry+"]}]"), dialPlugin, func(string) schema.GroupResource {
				return schema.GroupResource{Resource: "secrets"}
			})
			if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", entry, err, why)
			}
			if err == nil {
				if err := r.Close(); err != nil || !r.Remote() {
					t.Error(err)
				}
			}
		})
	}
}

// A stub is a plugin in this process, which may be away.
type stub struct {
	*plugin
	away atomic.Pointer[error]
	hang atomic.Bool // it does not answer while it is away
}

func (s *stub) Ask(ctx context.Context, method string, in []byte) ([]byte, error) {
	if err := s.away.Load(); err != nil {
		s.set(func() { s.asked[method]++ })
		if s.hang.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, *err
	}
	return s.answer(method[strings.LastIndexByte(method, '/')+1:], in)
}

func (s *stub) Close() error { return nil }

const kmsFile = `{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [{resources: [secrets],
	providers: [{kms: {apiVersion: v2, name: one, endpoint: "unix:///x"}}]}]}`

// TestKMSComesBack: what could not be opened while the plugin was away is read again when it is back, and while it does not answer few
// values wait for it.
func TestKMSComesBack(t *testing.T) {
	for _, hang := range []bool{false, true} {
		t.Run(fmt.Sprint("it hangs ", hang), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { comesBack(t, hang) }) })
	}
}

func comesBack(t *testing.T, hang bool) {
	p := &stub{plugin: &plugin{version: "v2", health: "ok", keyID: "k1", asked: map[string]int{}}}
	below, of := memory.New(), func(string) schema.GroupResource { return schema.GroupResource{Resource: "secrets"} }
	open := func() *Store {
		s, err := Open(below, []byte(kmsFile), func(string, string) (Conn, error) { return p, nil }, of)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const secrets = 100
	for i := range secrets { // each with a seed of its own
		if _, err := open().Write(t.Context(), store.Write{Key: fmt.Sprint("/registry/secrets/ns/", i), Value: []byte("clear")}); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("connection refused")
	p.away.Store(&gone)
	p.hang.Store(hang)
	s, began := open(), time.Now()
	unread := func() (n int) {
		page, err := s.List(t.Context(), "/registry/", "", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range page.KVs {
			if kv.Err != nil {
				n++
			}
		}
		return n
	}
	if n := unread(); n != secrets || time.Since(began) > kmsPause {
		t.Errorf("%d can't be read, after %v", n, time.Since(began))
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(t.Context(), "/registry/", 0, func(store.Batch) error { return nil })
	}()
	time.Sleep(time.Hour)
	select {
	case err := <-ended:
		t.Fatalf("the watch ended while the plugin was away: %v", err)
	default:
	}
	p.away.Store(nil)
	back := time.Now()
	if err := <-ended; !errors.Is(err, store.ErrCompacted) || time.Since(back) > 2*kmsPause {
		t.Errorf("%v, after %v", err, time.Since(back))
	}
	if n := unread(); n != 0 {
		t.Errorf("%d can't be read with the plugin there", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
