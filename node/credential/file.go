package credential

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// load reads a certificate and its key from one file; nil when there is none.
func load(path string) (*tls.Certificate, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	return &pair, err
}

// save replaces the file as a whole: a crash leaves the old certificate with the old key, or the new with the new.
func save(path string, cert, key []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep the node's certificate: %w", err)
	}
	if err := atomicfile.Write(path, append(cert, key...), 0o600); err != nil {
		return fmt.Errorf("keep the node's certificate: %w", err)
	}
	return nil
}
