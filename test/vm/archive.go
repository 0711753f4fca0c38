//go:build linux

package vm

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// An archive is written in the "new" format of cpio, the one that kernels read (initramfs buffer format). The first error stays.
type archive struct {
	w    *bufio.Writer
	made map[string]bool // a directory must precede what is in it
	next int             // inode number
	err  error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{"/": true, ".": true}}
}

const most = 1<<32 - 1 // bytes of a file that the format can tell

func (a *archive) entry(name string, mode uint32, body io.Reader, size int64) {
	if a.err != nil || a.made[name] {
		return
	}
	if size > most {
		a.err = fmt.Errorf("%s is too large for the guest: %d bytes", name, size)
		return
	}
	a.dir(path.Dir(name))
	a.made[name] = true
	a.raw(strings.TrimPrefix(name, "/"), mode, body, size)
}

func (a *archive) raw(name string, mode uint32, body io.Reader, size int64) {
	a.next++
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.next, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	a.padded(strings.NewReader(head), int64(len(head)))
	a.padded(body, size)
}

// padded writes exactly size bytes and zeros up to a multiple of four.
func (a *archive) padded(r io.Reader, size int64) {
	if a.err != nil {
		return
	}
	if _, a.err = io.CopyN(a.w, r, size); a.err == nil {
		_, a.err = a.w.Write(make([]byte, (4-size%4)%4))
	}
}

func (a *archive) dir(name string) {
	if !a.made[name] {
		a.entry(name, 0o040755, strings.NewReader(""), 0)
	}
}

func (a *archive) file(name string, mode fs.FileMode, body io.Reader, size int64) {
	setuid := uint32(0)
	if mode&fs.ModeSetuid != 0 { // newuidmap
		setuid = 0o4000
	}
	a.entry(path.Clean(name), 0o100000|uint32(mode.Perm())|setuid, body, size)
}

func (a *archive) link(name, to string) {
	a.entry(name, 0o120777, strings.NewReader(to), int64(len(to)))
}

func (a *archive) text(name, text string) {
	a.file(name, 0o644, strings.NewReader(text), int64(len(text)))
}

// copy takes a file of the host, or a directory with all that is in it. A link at its top is followed; others stay links. What is
// neither is left out.
func (a *archive) copy(to, from string) {
	if a.err != nil {
		return
	}
	if from, a.err = filepath.EvalSymlinks(from); a.err != nil {
		return
	}
	a.err = filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := path.Join(to, strings.TrimPrefix(name, from))
		switch {
		case d.IsDir():
			a.dir(target)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			a.link(target, link)
		case info.Mode().IsRegular():
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			a.file(target, info.Mode(), f, info.Size())
		}
		return a.err
	})
}

func (a *archive) close() error {
	a.raw("TRAILER!!!", 0, strings.NewReader(""), 0)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}
