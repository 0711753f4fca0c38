package applyset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kloop-dev/kloop/resource/codec"
)

// What a directory may hold.
const (
	maxFiles   = 1000
	maxBytes   = 32 << 20 // all files together
	maxObjects = 10000
)

// Files holds the objects that the manifests of a directory describe.
type Files struct {
	Want []Wish
	Bad  map[string]error // by file: what can't be read describes nothing, and loses nothing
	held map[string]bool  // files that are not read on purpose: their objects stay as they are
}

// Lost says that a file that is read, or is gone, does not describe the objects any more that it once did. of names where the files
// are: what files elsewhere describe is not for these to lose.
func (r Files) Lost(of string) func(origin string) bool {
	return func(origin string) bool {
		place, file, ok := strings.Cut(origin, ":")
		return ok && place == of && r.Bad[file] == nil && !r.held[file]
	}
}

// A Listing is a directory without the contents of its files.
type Listing struct {
	Print string // changes when a file does
	files []string
	held  map[string]bool
}

// List walks over what is below the root, in the order of names.
func List(root fs.FS) (l Listing, err error) {
	l.held = map[string]bool{}
	var print strings.Builder
	size := int64(0)
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case strings.HasSuffix(path, ".skip"):
			l.held[strings.TrimSuffix(path, ".skip")] = true
			fmt.Fprintln(&print, path)
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			info, err := fs.Stat(root, path)
			if err != nil {
				return err
			}
			if size += info.Size(); size > maxBytes { // before any of it is read
				return fmt.Errorf("more than %d MiB of manifests", maxBytes>>20)
			}
			l.files = append(l.files, path)
			fmt.Fprintln(&print, path, info.Size(), info.ModTime().UnixNano())
		}
		if len(l.files) > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		return nil
	})
	l.Print = print.String()
	return l, err
}

// Read reads the listed manifests, but for those that are held; of names the place. An error is one of the whole directory.
func Read(root fs.FS, l Listing, of string) (r Files, err error) {
	r = Files{Bad: map[string]error{}, held: l.held}
	left := maxBytes
	for _, file := range l.files {
		if r.held[file] {
			continue
		}
		data, err := fs.ReadFile(root, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since
		}
		if left -= len(data); left < 0 {
			return r, fmt.Errorf("more than %d MiB of manifests", maxBytes>>20)
		}
		var list []Wish
		if err == nil {
			list, err = parse(data, of+":"+file)
		}
		if err != nil {
			r.Bad[file] = fmt.Errorf("%s: %w", file, err)
			continue
		}
		if r.Want = append(r.Want, list...); len(r.Want) > maxObjects {
			return r, fmt.Errorf("more than %d objects", maxObjects)
		}
	}
	return r, nil
}

// parse reads the documents of one file: all or none.
func parse(data []byte, origin string) (list []Wish, err error) {
	docs := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return list, nil
			}
			return nil, err
		}
		js, strict, err := codec.FromYAML(doc)
		if err == nil && len(strict) > 0 {
			err = errors.Join(strict...)
		}
		if err != nil {
			return nil, err
		}
		if string(bytes.TrimSpace(js)) == "null" {
			continue
		}
		some, err := objects(js)
		if err != nil {
			return nil, err
		}
		for _, obj := range some {
			if list, err = appendWish(list, obj, origin); err != nil {
				return nil, err
			}
		}
	}
}

func appendWish(list []Wish, obj *unstructured.Unstructured, origin string) ([]Wish, error) {
	switch {
	case obj.GetAPIVersion() == "" || obj.GetKind() == "":
		return nil, errors.New("an object without apiVersion or kind")
	case obj.GetName() == "":
		return nil, fmt.Errorf("a %s without a name", obj.GetKind())
	}
	data, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return append(list, Wish{Object: obj, Origin: origin, Hash: hex.EncodeToString(sum[:8])}), nil
}

// objects decodes an object, or the items of a List.
func objects(js []byte) ([]*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if _, err := codec.UnmarshalJSON(js, &obj.Object); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(obj.GetKind(), "List") || obj.Object["items"] == nil {
		return []*unstructured.Unstructured{obj}, nil
	}
	list, err := obj.ToList()
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}
