package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nodeimage "github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
)

// image loads and makes images on a machine without a registry.
func image(ctx context.Context, std stdio, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return imageLoad(ctx, std, args[1:])
		case "pack":
			return imagePack(std, args[1:])
		}
	}
	return needSub(std, "image", args)
}

func imageLoad(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "image load", "FILE")
	dir := fs.String("data-dir", "/var/lib/kloop", "data directory of the node's kloop")
	socket := fs.String("runtime", "", "socket of the runtime (default: the one in the data directory)")
	args, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	if *socket == "" {
		*socket = filepath.Join(*dir, "runtime", "run", "containerd.sock")
	}
	if _, err := os.Stat(*socket); err != nil {
		return fmt.Errorf("no runtime is listening at %s: start the node first (kloop up): %w", *socket, err)
	}
	if err := runtime.Load(ctx, *socket, args[0]); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "loaded %s\n", args[0])
	return err
}

// words is a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

func imagePack(std stdio, args []string) error {
	fs := flags(std, "image pack", "--ref NAME --root DIR --out FILE")
	var spec nodeimage.Spec
	var entry, cmd, env, ports words
	fs.StringVar(&spec.Ref, "ref", "", "full name of the image: docker.io/library/nginx:1")
	fs.StringVar(&spec.Root, "root", "", "directory that becomes the image's file system")
	fs.StringVar(&spec.Workdir, "workdir", "", "working directory")
	fs.StringVar(&spec.User, "user", "", "user that the program runs as")
	fs.Var(&entry, "entrypoint", "program and arguments, one flag each")
	fs.Var(&cmd, "cmd", "default arguments, one flag each")
	fs.Var(&env, "env", "NAME=value, one flag each")
	fs.Var(&ports, "port", "80/tcp, one flag each")
	out := fs.String("out", "", "where to write the archive")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *out == "" || spec.Ref == "" || spec.Root == "" {
		return errors.New("pack needs --ref, --root and --out")
	}
	spec.Entrypoint, spec.Cmd, spec.Env, spec.Ports = entry, cmd, env, ports
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	if err := nodeimage.Pack(f, spec); err != nil {
		return errors.Join(err, f.Close(), os.Remove(*out))
	}
	return f.Close()
}
