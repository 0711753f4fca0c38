package sealed

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/nacl/secretbox"
)

// sealedPrefix begins every sealed value; a value without it is in clear.
var sealedPrefix = []byte("k8s:enc:")

var errShort = errors.New("the sealed value is too short")

// A sealer is one way to seal, with one key. extra is the store's key, which authenticated forms bind the value to.
type sealer struct {
	prefix []byte // what its values begin with, up to and with the key's name and a colon
	seal   func(plain, extra []byte) ([]byte, error)
	open   func(sealed, extra []byte) ([]byte, error)

	// These are for ways that somebody else has the key of; nil where nobody has.
	fresh   func(sealed []byte) bool        // whether a value is as it would be sealed now
	healthy func(ctx context.Context) error // whether the key can be had
	close   func() error
}

func prefixOf(kind, key string) []byte {
	return []byte(string(sealedPrefix) + kind + ":v1:" + key + ":")
}

// newCBC is aescbc: an initialization vector, then the value padded to whole blocks as PKCS #7 says. It does not
// notice a changed value.
func newCBC(name string, secret []byte) (*sealer, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	const size = aes.BlockSize
	return &sealer{prefix: prefixOf("aescbc", name),
		seal: func(plain, _ []byte) ([]byte, error) {
			pad := size - len(plain)%size
			out := make([]byte, size, size+len(plain)+pad)
			_, _ = rand.Read(out) // never fails
			out = append(append(out, plain...), bytes.Repeat([]byte{byte(pad)}, pad)...)
			cipher.NewCBCEncrypter(block, out[:size]).CryptBlocks(out[size:], out[size:])
			return out, nil
		},
		open: func(sealed, _ []byte) ([]byte, error) {
			if len(sealed) < 2*size || len(sealed)%size != 0 {
				return nil, errShort
			}
			out := make([]byte, len(sealed)-size)
			cipher.NewCBCDecrypter(block, sealed[:size]).CryptBlocks(out, sealed[size:])
			return unpad(out, size)
		}}, nil
}

func unpad(b []byte, size int) ([]byte, error) {
	pad := int(b[len(b)-1])
	if pad == 0 || pad > size || !bytes.Equal(b[len(b)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errors.New("the padding is wrong: another key, or a damaged value")
	}
	return b[:len(b)-pad], nil
}

// newGCM is aesgcm: a random nonce, then the value, bound to the store's key.
func newGCM(name string, secret []byte) (*sealer, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{prefix: prefixOf("aesgcm", name),
		seal: func(plain, extra []byte) ([]byte, error) {
			nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
			_, _ = rand.Read(nonce) // never fails
			return aead.Seal(nonce, nonce, plain, extra), nil
		},
		open: func(sealed, extra []byte) ([]byte, error) {
			n := aead.NonceSize()
			if len(sealed) < n {
				return nil, errShort
			}
			return aead.Open(nil, sealed[:n], sealed[n:], extra)
		}}, nil
}

// newSecretbox is secretbox: a random nonce, then an XSalsa20-Poly1305 box.
func newSecretbox(name string, secret []byte) (*sealer, error) {
	var key [32]byte
	if len(secret) != len(key) {
		return nil, errors.New("a key of secretbox has 32 bytes")
	}
	copy(key[:], secret)
	const nonceSize = 24
	return &sealer{prefix: prefixOf("secretbox", name),
		seal: func(plain, _ []byte) ([]byte, error) {
			var nonce [nonceSize]byte
			_, _ = rand.Read(nonce[:]) // never fails
			return secretbox.Seal(nonce[:], plain, &nonce, &key), nil
		},
		open: func(sealed, _ []byte) ([]byte, error) {
			if len(sealed) < nonceSize {
				return nil, errShort
			}
			plain, ok := secretbox.Open(nil, sealed[nonceSize:], (*[nonceSize]byte)(sealed), &key)
			if !ok {
				return nil, errors.New("another key, or a damaged value")
			}
			return plain, nil
		}}, nil
}
