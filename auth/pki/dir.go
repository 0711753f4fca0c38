package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// A dir reads the files of a directory and collects those to write. With an empty path nothing is read or
// written.
type dir struct {
	path  string
	given map[string][]byte // in place of the directory's files; nil: those
	fresh []file
}

type file struct {
	name string
	data []byte
}

// authority loads name.crt and name.key, or makes those that are missing. A key without its certificate is left by a
// crash between two renames: the certificate is made again. A certificate without its key is
// of no use, and of somebody else's making: an error.
func (d *dir) authority(name, common string, now time.Time) (*signing, error) {
	key, err := d.key(name)
	if err != nil {
		return nil, err
	}
	text, err := d.read(name + ".crt")
	if err != nil {
		return nil, err
	}
	switch {
	case text != nil && key == nil:
		return nil, fmt.Errorf("%s is there but %s.key is missing: restore the key, or move the certificate away to start anew",
			filepath.Join(d.path, name+".crt"), name)
	case text != nil:
		return d.loaded(name, text, key, now)
	case key == nil:
		if key, err = d.makeKey(name); err != nil {
			return nil, err
		}
	}
	a, err := newAuthority(common, key, now)
	if err != nil {
		return nil, err
	}
	d.fresh = append(d.fresh, file{name + ".crt", a.pem})
	return a, nil
}

// ReadAuthority loads an authority from two files that are there.
func ReadAuthority(cert, key string, now time.Time) (*Authority, error) {
	d := &dir{given: map[string][]byte{}}
	for name, path := range map[string]string{".crt": cert, ".key": key} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the authority that signs: %w", err)
		}
		d.given["ca"+name] = data
	}
	s, err := d.authority("ca", "", now)
	if err != nil {
		return nil, fmt.Errorf("the authority of %s and %s: %w", cert, key, err)
	}
	a := &Authority{}
	a.now.Store(s)
	return a, nil
}

// loaded reads an authority's certificates. The one of the key signs; others are believed. Which stands first does not matter: while they
// are exchanged a crash may leave the key of before beside certificates of now.
func (d *dir) loaded(name string, text []byte, key crypto.Signer, now time.Time) (*signing, error) {
	path := filepath.Join(d.path, name+".crt")
	certs, err := ParseCerts(text)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w): restore it from a backup", path, err)
	}
	own := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return sameKey(c, key) })
	switch {
	case slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return !c.IsCA }):
		return nil, fmt.Errorf("%s is not the certificate of an authority", path)
	case own < 0:
		return nil, fmt.Errorf("%s does not belong to %s.key: restore both from one backup", path, name)
	case now.After(certs[own].NotAfter):
		return nil, fmt.Errorf("%s expired at %s", path, certs[own].NotAfter.Format(time.RFC3339))
	}
	cross, err := d.read(name + crossFile)
	if err != nil {
		return nil, err
	}
	var vouched [][]byte
	if list, err := ParseCerts(cross); err == nil {
		for _, c := range list {
			vouched = append(vouched, c.Raw)
		}
	}
	return newSigning(certs[own], key, certs, text, vouched), nil
}

// signingKey loads name.key or makes it, with the public half beside it in name.pub, where those of earlier keys are that are still
// believed.
func (d *dir) signingKey(name string) (key crypto.Signer, also []crypto.PublicKey, err error) {
	key, err = d.key(name)
	if err != nil {
		return nil, nil, err
	}
	if key != nil {
		text, err := d.read(name + ".pub")
		also = slices.DeleteFunc(publicKeys(text), func(k crypto.PublicKey) bool { return sameKey(&x509.Certificate{PublicKey: k}, key) })
		return key, also, err
	}
	if key, err = d.makeKey(name); err != nil {
		return nil, nil, err
	}
	text, err := publicPEM(key.Public())
	if err != nil {
		return nil, nil, err
	}
	d.fresh = append(d.fresh, file{name + ".pub", text})
	return key, nil, nil
}

func publicPEM(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// publicKeys are those of a PEM text. What is no key is passed over: nothing depends on the file but what it adds.
func publicKeys(text []byte) (keys []crypto.PublicKey) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// key loads name.key; nil when there is none.
func (d *dir) key(name string) (crypto.Signer, error) {
	text, err := d.read(name + ".key")
	if err != nil || text == nil {
		return nil, err
	}
	key, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w): restore it from a backup",
			filepath.Join(d.path, name+".key"), err)
	}
	return key, nil
}

func (d *dir) makeKey(name string) (crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	text, err := keyPEM(key)
	d.fresh = append(d.fresh, file{name + ".key", text})
	return key, err
}

func (d *dir) read(name string) ([]byte, error) {
	if d.given != nil {
		return d.given[name], nil
	}
	if d.path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's keys: %w", err)
	}
	if data == nil {
		data = []byte{} // an empty file is a damaged one, not a missing one
	}
	return data, nil
}

// flush writes the new files. All are made durable under temporary names first, at the same time, since an
// fsync is the expensive part; then they are renamed in order, keys before their certificates.
func (d *dir) flush() error {
	if d.path == "" || len(d.fresh) == 0 {
		return nil
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("keep the cluster's keys: %w", err)
	}
	errs := make([]error, len(d.fresh))
	var wg sync.WaitGroup
	for i, f := range d.fresh {
		wg.Go(func() { errs[i] = writeTemp(filepath.Join(d.path, f.name), f.data) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keep the cluster's keys: %w", err)
	}
	for _, f := range d.fresh {
		path := filepath.Join(d.path, f.name)
		if err := os.Rename(path+".tmp", path); err != nil {
			return fmt.Errorf("keep the cluster's keys: %w", err)
		}
	}
	if err := atomicfile.SyncDir(d.path); err != nil {
		return fmt.Errorf("keep the cluster's keys: %w", err)
	}
	return nil
}

func writeTemp(path string, data []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
