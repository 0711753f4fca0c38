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

// pauseARM64 is the same program in 64-bit ARM's instructions. The last two words are the set of all signals.
var pauseARM64 = []uint32{
	0xd2800040, 0x100003a1, 0xd2800002, 0xd2800103, 0xd28010e8, 0xd4000001, 0x10000300, 0xd2800001, 0xd2800002,
	0xd2800103, 0xd2801128, 0xd4000001, 0x71003c1f, 0x540001c0, 0x7100081f, 0x54000180, 0x7100441f, 0x54fffea1,
	0x92800000, 0xd2800001, 0xd2800022, 0xd2800003, 0xd2802088, 0xd4000001, 0xf100001f, 0x54ffff2c, 0x17ffffec,
	0xd2800000, 0xd2800ba8, 0xd4000001, 0xffffffff, 0xffffffff,
}

// Pause writes the pause image for this machine.
func Pause(w io.Writer) error {
	program, err := pause(runtime.GOARCH)
	if err != nil {
		return err
	}
	return Pack(w, Spec{Ref: PauseRef, Files: []File{{"/pause", 0o755, program}}, Entrypoint: []string{"/pause"}})
}

// pause is the program for a processor.
func pause(arch string) ([]byte, error) {
	switch arch {
	case "amd64":
		return executable(elf.EM_X86_64, pauseAMD64)
	case "arm64":
		code, err := binary.Append(nil, binary.LittleEndian, pauseARM64)
		if err != nil {
			return nil, err
		}
		return executable(elf.EM_AARCH64, code)
	}
	return nil, fmt.Errorf(
		"kloop has no pause image for %s: start a container runtime of your own, with its own, and give its socket to kloop node --runtime", arch)
}

// executable wraps machine code into the smallest ELF file that Linux runs: one header, one segment.
func executable(machine elf.Machine, code []byte) ([]byte, error) {
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size,
		Align: 0x10000}
	var b bytes.Buffer
	for _, part := range []any{h, p, code} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
