package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// envFileMax bounds a file with variables, in bytes: a container writes it and the agent reads it.
const envFileMax = 64 << 10

// fromFile looks a variable up in a file that another container of the pod left in an emptyDir; found is false for optional ones
// that are not there. volumes are the host paths of the pod's volumes, by name.
func fromFile(ref *corev1.FileKeySelector, volumes map[string]string) (value string, found bool, err error) {
	dir, ok := volumes[ref.VolumeName]
	if !ok {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	text, err := readEnvFile(dir, ref.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && is(ref.Optional):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("couldn't read env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	}
	value, found, err = lookUp(text, ref.Key)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("couldn't parse env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	case !found && !is(ref.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, found, nil
}

// readEnvFile reads a file below dir. A container may have put anything there: a symbolic link leads nowhere else, and nothing but a
// plain file is waited for.
func readEnvFile(dir, path string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, envFileMax+1))
	if len(text) > envFileMax {
		return "", fmt.Errorf("is larger than %d bytes", envFileMax)
	}
	return string(text), err
}

// lookUp finds the first value of key in a file of lines NAME='VALUE', which a shell reads alike: values lie in single quotes, may go
// over lines, and nothing in them is expanded. Lines that are empty or begin with # are passed over, and so is a comment behind a
// value. What comes after the key is not looked at.
func lookUp(text, key string) (value string, found bool, err error) {
	const blank = " \t\r"
	for n := 1; text != ""; {
		line, rest, _ := strings.Cut(text, "\n")
		head := strings.TrimLeft(line, blank)
		if head == "" || head[0] == '#' {
			text, n = rest, n+1
			continue
		}
		wrong := func(why string) error { return fmt.Errorf("invalid environment variable format at line %d%s", n, why) }
		name, quoted, ok := strings.Cut(head, "=")
		switch {
		case !ok || name == "":
			return "", false, wrong("")
		case strings.TrimRight(name, blank) != name:
			return "", false, wrong(": whitespace before '=' is not allowed")
		case !strings.HasPrefix(quoted, "'"):
			return "", false, wrong(": value must be enclosed in single quotes")
		}
		begin := len(line) - len(quoted) + 1
		value, rest, ok = strings.Cut(text[begin:], "'")
		if !ok {
			return "", false, wrong(": unclosed single quote")
		}
		n += strings.Count(value, "\n")
		after, rest, _ := strings.Cut(rest, "\n")
		if note := strings.TrimLeft(after, blank); note != "" && (note[0] != '#' || note == after) {
			return "", false, wrong(": unexpected content after closing quote")
		}
		if name == key {
			return value, true, nil
		}
		text, n = rest, n+1
	}
	return "", false, nil
}
