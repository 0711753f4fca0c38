package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// URL is the address of a cluster's archive, for pods of its namespace.
func URL(cluster string) string { return "http://" + cluster + "-archive:8008" }

// ask sends a request and returns the body of a good answer.
func ask(ctx context.Context, method, url, token string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // the status says enough
	return nil, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, bytes.TrimSpace(text))
}

// Answers says whether the archive is there and takes WAL.
func Answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := ask(ctx, http.MethodGet, url+"/ready", "", nil)
	return err == nil && answer.Close() == nil
}

// Push archives one file of WAL: PostgreSQL's archive_command.
func Push(ctx context.Context, url, token, path, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	answer, err := ask(ctx, http.MethodPut, url+"/wal/"+name, token, text)
	if err != nil {
		return err
	}
	return answer.Close()
}

// Fetch gets one file of WAL: PostgreSQL's restore_command.
func Fetch(ctx context.Context, url, token, name, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	answer, err := ask(ctx, http.MethodGet, url+"/wal/"+name, token, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, largest+1))
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Unpack gets the newest base backup from before a time into a folder that is not there yet. A zero time is now.
func Unpack(ctx context.Context, url, token string, before time.Time, dir string) error {
	url += "/base"
	if !before.IsZero() {
		url += "?before=" + before.UTC().Format(time.RFC3339Nano)
	}
	answer, err := ask(ctx, http.MethodGet, url, token, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // no name in the archive leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	for in := tar.NewReader(answer); ; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag == tar.TypeDir:
			err = root.MkdirAll(filepath.Clean(h.Name), 0o700)
		case h.Typeflag == tar.TypeReg:
			err = write(root, filepath.Clean(h.Name), in)
		}
		if err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
