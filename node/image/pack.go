// Package image makes container images without a registry or a daemon: an OCI archive from a directory, and
// the pause image that holds a pod's namespaces, which kloop carries in itself.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A File is one file of an image, given by its content.
type File struct {
	Path string // absolute, in the image
	Mode fs.FileMode
	Data []byte
}

// A Spec describes an image of one layer.
type Spec struct {
	Ref        string // full reference: docker.io/library/nginx:1.22
	Root       string // directory that becomes the file system; may be empty
	Files      []File // more files
	Entrypoint []string
	Cmd        []string
	Env        []string
	Workdir    string
	User       string
	Ports      []string // 80/tcp
	Arch       string   // processor, as Go names it; "": this machine's
}

func (s Spec) arch() string { return cmp.Or(s.Arch, runtime.GOARCH) }

// The media types of the OCI image format.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type blob struct {
	descriptor
	data []byte
}

func newBlob(mediaType string, data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(data)}, data}
}

// Pack writes the image as an OCI archive that `kloop image load` and any container tool read. The same input
// gives the same bytes.
func Pack(w io.Writer, s Spec) error {
	if s.Ref == "" {
		return errors.New("pack an image: it needs a reference such as example.org/web:1")
	}
	plain, err := layer(s)
	if err != nil {
		return fmt.Errorf("pack %s: %w", s.Ref, err)
	}
	sum := sha256.Sum256(plain)
	var packed bytes.Buffer
	gz, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // it goes to a runtime of this machine as a rule
	if err != nil {
		return err
	}
	if _, err := gz.Write(plain); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	lay := newBlob(typeLayer, packed.Bytes())
	conf, err := config(s, "sha256:"+hex.EncodeToString(sum[:]))
	if err != nil {
		return err
	}
	man, err := jsonBlob(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
		"config": conf.descriptor, "layers": []descriptor{lay.descriptor}})
	if err != nil {
		return err
	}
	return archive(w, s, man, conf, lay)
}

func jsonBlob(mediaType string, v any) (blob, error) {
	data, err := json.Marshal(v)
	return newBlob(mediaType, data), err
}

func config(s Spec, diff string) (blob, error) {
	ports := map[string]struct{}{}
	for _, p := range s.Ports {
		ports[p] = struct{}{}
	}
	return jsonBlob(typeConfig, map[string]any{
		"architecture": s.arch(), "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{"Entrypoint": s.Entrypoint, "Cmd": s.Cmd, "Env": s.Env, "WorkingDir": s.Workdir,
			"User": s.User, "ExposedPorts": ports},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diff}},
	})
}

func archive(w io.Writer, s Spec, man blob, blobs ...blob) error {
	man.Annotations = map[string]string{"io.containerd.image.name": s.Ref, "org.opencontainers.image.ref.name": s.Ref}
	man.Platform = &platform{s.arch(), "linux"}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{man.descriptor}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	put := func(name string, data []byte) {
		if err == nil {
			err = writeFile(out, name, 0o644, data)
		}
	}
	put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	put("index.json", index)
	for _, b := range append(blobs, man) {
		put("blobs/sha256/"+strings.TrimPrefix(b.Digest, "sha256:"), b.data)
	}
	if err != nil {
		return err
	}
	return out.Close()
}

func writeFile(out *tar.Writer, name string, mode int64, data []byte) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg,
		Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := out.Write(data)
	return err
}

// layer is the file system as a tar, in path order and without times.
func layer(s Spec) ([]byte, error) {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	if s.Root != "" {
		if err := filepath.WalkDir(s.Root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == s.Root {
				return err
			}
			return addPath(out, s.Root, path, e)
		}); err != nil {
			return nil, err
		}
	}
	coldsort.Func(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range s.Files {
		if err := writeFile(out, strings.TrimPrefix(f.Path, "/"), int64(f.Mode.Perm()), f.Data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), out.Close()
}

// addPath adds a file, directory or symbolic link; what else a directory may hold has no place in an image.
func addPath(out *tar.Writer, root, path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	if h.Name, err = filepath.Rel(root, path); err != nil {
		return err
	}
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname, h.ModTime, h.AccessTime, h.ChangeTime = "", "", time.Unix(0, 0), time.Time{}, time.Time{}
	if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}
