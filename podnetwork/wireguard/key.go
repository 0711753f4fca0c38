// Package wireguard keeps the key of this machine and configures WireGuard links of the kernel, by its generic netlink interface
// (linux/wireguard.h).
package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// KeyLen is the number of bytes of a key.
const KeyLen = 32

// A Key is a public or private key of Curve25519.
type Key [KeyLen]byte

// String is the key as the program wg writes it. Don't log private ones.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// ParseKey reads what String wrote. The zero key, which the kernel takes for none, is refused.
func ParseKey(text string) (k Key, err error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != KeyLen || Key(raw) == k {
		return k, fmt.Errorf("%.60q is no key of WireGuard, which has %d bytes in base64", text, KeyLen)
	}
	return Key(raw), nil
}

// Public is the public key of a private one.
func (k Key) Public() (public Key, err error) {
	private, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		return public, err
	}
	return Key(private.PublicKey().Bytes()), nil
}

// Keep reads the private key in the file, or makes one there that only the owner may read. A file that others may read is closed to them.
func Keep(file string) (k Key, err error) {
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		if k, err = ParseKey(strings.TrimSpace(string(text))); err != nil { // not its text: it may be a key with a slip
			return k, fmt.Errorf("%s holds no key of WireGuard: remove it, and the node gets another", file)
		}
		return k, os.Chmod(file, 0o600)
	case !errors.Is(err, os.ErrNotExist):
		return k, fmt.Errorf("read the node's key: %w", err)
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return k, err
	}
	k = Key(private.Bytes())
	next := file + ".next"
	err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.RemoveAll(next))
	if err == nil {
		err = save(next, k.String()+"\n")
	}
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		return k, fmt.Errorf("keep the node's key: %w", err)
	}
	return k, nil
}

// save writes a file that must outlive a power cut: another key would cut the node off until its peers know it.
func save(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
