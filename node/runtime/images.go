package runtime

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/distribution/reference"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// Load imports an image archive of docker or OCI, so that pods can use it without a registry, and returns the names by which pods find its
// images. Short names get what the container runtime reads them as: app:1 is docker.io/library/app:1.
func Load(ctx context.Context, socket, archive string) (names []string, err error) {
	out, err := ctr(ctx, socket, "images", "import", archive)
	for range 3 { // two that import the same image at once hinder each other
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			break
		}
		out, err = ctr(ctx, socket, "images", "import", archive)
	}
	if err != nil {
		return nil, err
	}
	list, err := ctr(ctx, socket, "images", "list")
	if err != nil {
		return nil, fmt.Errorf("list what was imported: %w", err)
	}
	for _, name := range imported(out, list) {
		full, err := FullName(name)
		if err != nil {
			return nil, err
		}
		if full != name {
			if _, err := ctr(ctx, socket, "images", "tag", "--force", name, full); err != nil {
				return nil, fmt.Errorf("give image %s its full name: %w", name, err)
			}
			if _, err := ctr(ctx, socket, "images", "rm", name); err != nil {
				return nil, fmt.Errorf("take image %s its short name: %w", name, err)
			}
		}
		names = append(names, full)
	}
	return names, nil
}

func ctr(ctx context.Context, socket string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // it was killed, and this is why
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return out, nil
}

// imported are the names of the images that an import told of, by their digests: version 2 of ctr writes names with spaces for hyphens.
// Each line of ctr's list has a name, a type and a digest. Names without a tag are the runtime's own.
func imported(out, list []byte) (names []string) {
	for _, line := range strings.Split(string(list), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[2], "sha256:") || strings.Contains(f[0], "sha256:") || !bytes.Contains(out, []byte(f[2])) {
			continue
		}
		names = append(names, f[0])
	}
	return names
}

// FullName is an image's name with registry and tag, as pods' short names are read.
func FullName(name string) (string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("%q is no name of an image: %w", name, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// An Image is one that a node has.
type Image struct {
	ID    string
	Names []string // with tags; those with digests if there are none
	Size  uint64   // bytes
}

// ListImages returns the images of a node by their first name.
func (r *Runtime) ListImages(ctx context.Context) ([]Image, error) {
	res, err := r.Images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the images: %w", err)
	}
	var list []Image
	for _, i := range res.Images {
		names := i.RepoTags
		if len(names) == 0 {
			names = i.RepoDigests
		}
		list = append(list, Image{ID: i.Id, Names: slices.Sorted(slices.Values(names)), Size: i.Size})
	}
	first := func(i Image) string { return cmp.Or(strings.Join(i.Names, " "), i.ID) }
	coldsort.Func(list, func(a, b Image) int { return cmp.Compare(first(a), first(b)) })
	return list, nil
}

// RemoveImage removes an image by a name or ID. False says that there is none.
func (r *Runtime) RemoveImage(ctx context.Context, name string) (bool, error) {
	spec := &cri.ImageSpec{Image: name}
	res, err := r.Images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: spec})
	if err != nil {
		return false, fmt.Errorf("find image %s: %w", name, err)
	}
	if res.Image == nil {
		return false, nil
	}
	if _, err := r.Images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: spec}); err != nil {
		return false, fmt.Errorf("remove image %s: %w", name, err)
	}
	return true, nil
}
