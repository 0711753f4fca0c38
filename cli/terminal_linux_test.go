package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// onTerminal runs a line with a terminal for its output, and returns what came there.
func onTerminal(t *testing.T, line string, columns uint16) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	got := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when nobody has the terminal open
		got <- string(text)
	}()
	Run(t.Context(), strings.NewReader(""), screen, io.Discard, append([]string{"kloop"}, strings.Fields(line)...))
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-got, "\r\n", "\n")
}

// onTerminals holds what a line prints to terminals: no colour where none is wanted, and lines that fit where text is laid out.
func onTerminals(t *testing.T, line string) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	for _, columns := range []uint16{30, 60, 200} {
		text := onTerminal(t, line, columns)
		if strings.Contains(text, "\x1b") {
			t.Errorf("kloop %s has escapes with NO_COLOR: %q", line, text)
		}
		word, _, _ := strings.Cut(line, " ")
		for l := range strings.Lines(text) {
			l = strings.TrimSuffix(l, "\n")
			folds := strings.Contains("why gaps trace diff", word) && columns >= 40 && !strings.Contains(l, "kubectl ")
			long := slices.ContainsFunc(strings.Fields(l), func(w string) bool { return len(w) > 30 }) // a word stays whole
			if folds && !long && utf8.RuneCountInString(l) > int(columns) {
				t.Errorf("kloop %s on %d columns: %q", line, columns, l)
			}
		}
	}
}
