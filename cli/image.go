package cli

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/clusters"
	nodeimage "github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
)

// image loads, lists, removes and makes images on a machine without a registry.
func image(ctx context.Context, std stdio, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return imageLoad(ctx, std, args[1:])
		case "list", "ls":
			return imageList(ctx, std, args[1:])
		case "rm":
			return imageRemove(ctx, std, args[1:])
		case "pack":
			return imagePack(std, args[1:])
		}
	}
	return needSub(std, "image", args)
}

// nodeFlags say on which nodes of this machine a command works.
type nodeFlags struct {
	fs                *flag.FlagSet
	name, dir, socket string
}

func (f *nodeFlags) bind(fs *flag.FlagSet) {
	f.fs = fs
	fs.StringVar(&f.name, "name", "", "a cluster by name: all its nodes (default: that of the current context)")
	fs.StringVar(&f.dir, "data-dir", "/var/lib/kloop", "data directory of a node's kloop")
	fs.Func("container-runtime-endpoint", "containerd of the node, unix:///`PATH` (default: the one in the data directory)",
		func(s string) (err error) {
			f.socket, err = settings.Socket(s)
			return err
		})
}

// sockets are those of the runtimes of the nodes.
func (f *nodeFlags) sockets() (list []string, err error) {
	name := f.name
	if name == "" && !given(f.fs, "data-dir") && f.socket == "" {
		name = currentCluster()
	}
	list = []string{f.socket}
	if name == "" && goruntime.GOOS != "linux" {
		return nil, errors.New("images are for nodes, which are machines with Linux: run kloop image there")
	}
	switch {
	case name != "":
		c, err := pick([]string{name})
		if err != nil {
			return nil, err
		}
		if c.Simulated {
			return nil, fmt.Errorf("cluster %s has simulated nodes: they need no images", name)
		}
		list = c.Sockets()
	case f.socket == "":
		list = []string{filepath.Join(f.dir, "runtime", "run", "containerd.sock")}
	}
	for _, socket := range list {
		if _, err := os.Stat(socket); err != nil {
			return nil, fmt.Errorf("no runtime is listening at %s: start the node first (kloop up), or name its --container-runtime-endpoint: %w",
				socket, err)
		}
	}
	return list, nil
}

// currentCluster is the named cluster of this machine that commands speak to; "" if it is another.
func currentCluster() string {
	rules, _ := which("")
	cfg, err := rules.Load()
	if err != nil {
		return ""
	}
	name := clusters.OfContext(cfg.CurrentContext)
	root, err := clusters.Default()
	if err != nil || name == "" {
		return ""
	}
	c, err := root.Get(name)
	if err != nil {
		return ""
	}
	if known := cfg.Clusters[cfg.CurrentContext]; known == nil || known.Server != c.Server() {
		return "" // a cluster of another machine that is called the same
	}
	return name
}

// imagesAt reads the arguments of a command that does something with images: which, and the sockets of the nodes' runtimes.
func imagesAt(std stdio, name, usage string, args []string) (images, sockets []string, err error) {
	fs := flags(std, name, usage)
	var nodes nodeFlags
	nodes.bind(fs)
	if images, err = wordsOf(fs, args, 1, 100); err != nil {
		return nil, nil, err
	}
	sockets, err = nodes.sockets()
	return images, sockets, err
}

// imageLoad puts images into the runtimes of the nodes.
func imageLoad(ctx context.Context, std stdio, args []string) error {
	words, sockets, err := imagesAt(std, "image load", "FILE… | IMAGE… | -", args)
	if err != nil {
		return err
	}
	for _, w := range words {
		if err := loadOne(ctx, std, sockets, w); err != nil {
			return err
		}
	}
	return nil
}

// loadOne loads an archive, or what docker or podman has under a name, into all runtimes.
func loadOne(ctx context.Context, std stdio, sockets []string, what string) error {
	path, done, err := archive(ctx, std, what)
	if err != nil {
		return err
	}
	defer done()
	names, errs := make([][]string, len(sockets)), make([]error, len(sockets))
	var all sync.WaitGroup
	seats := make(chan struct{}, 8) // each writes the whole image to disk
	for i, socket := range sockets {
		all.Go(func() {
			seats <- struct{}{}
			defer func() { <-seats }()
			names[i], errs[i] = runtime.Load(ctx, socket, path)
			if errs[i] != nil {
				errs[i] = fmt.Errorf("load %s: %w", what, errs[i])
			}
		})
	}
	all.Wait()
	for _, err := range errs { // they have the same archive, and the same to say about it
		if err != nil {
			return err
		}
	}
	where := ""
	if len(sockets) > 1 {
		where = fmt.Sprintf(" on %d nodes", len(sockets))
	}
	if len(names[0]) == 0 {
		return fmt.Errorf("%s holds no image that has a name: save it by its name (docker save NAME:TAG)", what)
	}
	_, err = fmt.Fprintf(std.out, "loaded %s%s\n", strings.Join(names[0], ", "), where)
	return err
}

// archive is a file with the images that a word means, uncompressed: a file, the standard input (-), or the name of an image that docker or
// podman has. done removes what was made.
func archive(ctx context.Context, std stdio, what string) (path string, done func(), err error) {
	if what == "-" {
		return spool(std.in)
	}
	f, err := os.Open(what)
	if errors.Is(err, os.ErrNotExist) {
		return saved(ctx, what, err)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the image: %w", err)
	}
	defer f.Close()
	if in := bufio.NewReader(f); !gzipped(in) {
		return what, func() {}, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", nil, err
	}
	return spool(f)
}

// saved asks docker, then podman, for an image. missing is why there is no such file.
func saved(ctx context.Context, name string, missing error) (string, func(), error) {
	for _, program := range []string{"docker", "podman"} {
		if exec.CommandContext(ctx, program, "image", "inspect", name).Run() != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, program, "save", name)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return "", nil, err
		}
		if err := cmd.Start(); err != nil {
			return "", nil, err
		}
		path, done, err := spool(out)
		if err != nil {
			_ = cmd.Process.Kill() // nobody reads what it writes
			return "", nil, errors.Join(fmt.Errorf("save image %s from %s: %w", name, program, err), cmd.Wait())
		}
		if err := cmd.Wait(); err != nil {
			done()
			return "", nil, fmt.Errorf("save image %s from %s: %w", name, program, err)
		}
		return path, done, nil
	}
	return "", nil, fmt.Errorf("%w; and neither docker nor podman has an image of that name", missing)
}

func gzipped(in *bufio.Reader) bool {
	head, _ := in.Peek(2) // a shorter one is none
	return string(head) == "\x1f\x8b"
}

// spool writes an archive to a file, uncompressed.
func spool(from io.Reader) (path string, done func(), err error) {
	in := bufio.NewReader(from)
	from = in
	if gzipped(in) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return "", nil, fmt.Errorf("read the compressed image: %w", err)
		}
		from = z
	}
	f, err := os.CreateTemp("", "kloop-image")
	if err != nil {
		return "", nil, err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(fmt.Errorf("read the image: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, nil
}

// imageList shows the images of the nodes.
func imageList(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "image list", "")
	var nodes nodeFlags
	nodes.bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	sockets, err := nodes.sockets()
	if err != nil {
		return err
	}
	rows, err := imagesOf(ctx, sockets)
	if err != nil {
		return err
	}
	return answer(std, fs, items(rows), func(out io.Writer) error {
		w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
		fmt.Fprintln(w, "IMAGE\tID\tSIZE\tNODES")
		for _, r := range rows {
			id := strings.TrimPrefix(r.ID, "sha256:")
			fmt.Fprintf(w, "%s\t%.12s\t%.1f MB\t%d\n", strings.Join(r.Names, " "), id, float64(r.Bytes)/1e6, r.Nodes)
		}
		return w.Flush()
	})
}

// shownImage is an image, and on how many of this machine's nodes it is.
type shownImage struct {
	Names []string `json:"names"`
	ID    string   `json:"id"`
	Bytes uint64   `json:"bytes"`
	Nodes int      `json:"nodes"`
}

func imagesOf(ctx context.Context, sockets []string) (rows []*shownImage, err error) {
	known := map[string]*shownImage{}
	for _, socket := range sockets {
		r, err := runtime.Connect(ctx, socket)
		if err != nil {
			return nil, err
		}
		list, err := r.ListImages(ctx)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		for _, i := range list {
			key := strings.Join(i.Names, " ") + " " + i.ID
			if known[key] == nil {
				known[key] = &shownImage{append([]string{}, i.Names...), i.ID, i.Size, 0}
				rows = append(rows, known[key])
			}
			known[key].Nodes++
		}
	}
	return rows, nil
}

// imageRemove removes images from the nodes.
func imageRemove(ctx context.Context, std stdio, args []string) error {
	words, sockets, err := imagesAt(std, "image rm", "IMAGE…", args)
	if err != nil {
		return err
	}
	for _, w := range words {
		removed := 0
		for _, socket := range sockets {
			r, err := runtime.Connect(ctx, socket)
			if err != nil {
				return err
			}
			there, err := r.RemoveImage(ctx, w)
			if err = errors.Join(err, r.Close()); err != nil {
				return err
			}
			if there {
				removed++
			}
		}
		if removed == 0 {
			return fmt.Errorf("no node has image %s; kloop image list shows what there is", w)
		}
		fmt.Fprintf(std.out, "removed %s\n", w)
	}
	return nil
}

// words is a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

func imagePack(std stdio, args []string) error {
	fs := flags(std, "image pack", "--ref NAME --root DIR --out FILE")
	var spec nodeimage.Spec
	var entry, cmd, env, ports words
	fs.StringVar(&spec.Ref, "ref", "", "name of the image: app:1 is docker.io/library/app:1")
	fs.StringVar(&spec.Root, "root", "", "directory that becomes the image's file system")
	fs.StringVar(&spec.Workdir, "workdir", "", "working directory")
	fs.StringVar(&spec.User, "user", "", "user that the program runs as")
	fs.StringVar(&spec.Arch, "arch", "", "processor that the program is for: amd64 or arm64 (default: this machine's)")
	fs.Var(&entry, "entrypoint", "program and arguments, one flag each")
	fs.Var(&cmd, "cmd", "default arguments, one flag each")
	fs.Var(&env, "env", "NAME=value, one flag each")
	fs.Var(&ports, "port", "80/tcp, one flag each")
	out := fs.String("out", "", "where to write the archive")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *out == "" || spec.Ref == "" || spec.Root == "" {
		return misuse("pack needs --ref, --root and --out")
	}
	var err error
	if spec.Ref, err = runtime.FullName(spec.Ref); err != nil {
		return err
	}
	spec.Entrypoint, spec.Cmd, spec.Env, spec.Ports = entry, cmd, env, ports
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	if err := nodeimage.Pack(f, spec); err != nil {
		return errors.Join(err, f.Close(), os.Remove(*out))
	}
	if err := f.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s is in %s: kloop image load %[2]s\n", spec.Ref, *out)
	return err
}
