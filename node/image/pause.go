package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
)

// PauseRef is the name of the pause image.
const PauseRef = "kloop.dev/pause:1"

// pauseAMD64 is the whole program that holds a pod's namespaces: it blocks every signal, waits for them one by
// one, reaps children on SIGCHLD and ends on SIGTERM or SIGINT. (Blocked signals reach even process 1, which
// ignores those that it has no handler for.)
//
//	      rt_sigprocmask(SIG_SETMASK, all)
//	wait: switch rt_sigtimedwait(all) { SIGTERM, SIGINT: exit(0); SIGCHLD: while wait4(-1, WNOHANG) > 0 {} }
//	      goto wait
var pauseAMD64 = []byte{
	0xb8, 0x0e, 0x00, 0x00, 0x00, 0xbf, 0x02, 0x00, 0x00, 0x00, 0x48, 0x8d, 0x35, 0x58, 0x00, 0x00, 0x00, 0x31, 0xd2,
	0x41, 0xba, 0x08, 0x00, 0x00, 0x00, 0x0f, 0x05,
	0xb8, 0x80, 0x00, 0x00, 0x00, 0x48, 0x8d, 0x3d, 0x42, 0x00, 0x00, 0x00, 0x31, 0xf6, 0x31, 0xd2, 0x41, 0xba, 0x08,
	0x00, 0x00, 0x00, 0x0f, 0x05,
	0x83, 0xf8, 0x0f, 0x74, 0x28, 0x83, 0xf8, 0x02, 0x74, 0x23, 0x83, 0xf8, 0x11, 0x75, 0xd9,
	0xb8, 0x3d, 0x00, 0x00, 0x00, 0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff, 0x31, 0xf6, 0xba, 0x01, 0x00, 0x00, 0x00,
	0x45, 0x31, 0xd2, 0x0f, 0x05, 0x85, 0xc0, 0x7f, 0xe4, 0xeb, 0xbb,
	0xb8, 0x3c, 0x00, 0x00, 0x00, 0x31, 0xff, 0x0f, 0x05,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// Pause writes the pause image.
func Pause(w io.Writer) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the pause image is not available for %s yet; configure one with --pause-image", runtime.GOARCH)
	}
	program, err := executable(elf.EM_X86_64, pauseAMD64)
	if err != nil {
		return err
	}
	return Pack(w, Spec{Ref: PauseRef, Files: []File{{"/pause", 0o755, program}}, Entrypoint: []string{"/pause"}})
}

// executable wraps machine code into the smallest ELF file that Linux runs: one header, one segment.
func executable(machine elf.Machine, code []byte) ([]byte, error) {
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000}
	var b bytes.Buffer
	for _, part := range []any{h, p, code} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
