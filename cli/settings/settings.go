// Package settings is the one place where each setting of kloop is declared: its key in the file, its flag, its
// default, what it does and the field that it fills. Flags, environment variables, the file, `kloop config show`, the
// personality kube-apiserver and docs/config.md all follow from that table.
//
// The order of authority, from weak to strong: the default, the file, the environment, flags.
package settings

import (
	"fmt"
	"strings"

	"github.com/kloop-dev/kloop/cluster"
)

// Options holds the values of all settings: a cluster's configuration, and what the process itself needs.
type Options struct {
	cluster.Config
	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json
	Pprof     string // where profiles of the process are served, host:port; "": nowhere

	InstallRuntime bool // have the machine's package manager install what a node needs, where it is missing
}

// Commands that have a setting as a flag.
type Commands int

// The commands. A file may hold the settings of all of them.
const (
	Up Commands = 1 << iota
	Server
	Controllers
	Node
)

// A Setting is one thing that can be set. Its default is the field's value before anything was set.
type Setting struct {
	Key  string // in the file, with dots between the levels
	Flag string // without dashes; upstream's name where upstream has such a flag
	For  Commands
	Doc  string // one sentence, no full stop
	value
	from string // "" as long as it has its default
	was  string // the default
}

// A value is one field, as text. Lists have commas between their elements, maps commas between NAME=VALUE pairs.
type value interface {
	set(text string) error // "" is the empty value; nothing is changed when an error is returned
	text() string
	shape() shape
}

// A shape is the form of a value in a file.
type shape int

const (
	scalar shape = iota
	truth        // true or false
	list
	mapping
)

// Sheet holds the settings of one run and where each came from.
type Sheet struct {
	list    []Setting
	flagged map[string][]string // values of flags as given, by key
	config  *string             // value of --config, once a command has it

	// What Fill read, for Again.
	file   string
	lookup func(string) (string, bool)
}

// New returns the sheet of the options, which hold the defaults.
func New(o *Options) *Sheet {
	s := &Sheet{list: table(o), flagged: map[string][]string{}}
	for i := range s.list {
		s.list[i].was = s.list[i].text()
	}
	return s
}

func (s *Sheet) find(key string) *Setting {
	for i := range s.list {
		if s.list[i].Key == key {
			return &s.list[i]
		}
	}
	return nil
}

// change sets a value and says where it came from.
func (t *Setting) change(text, from string) error {
	if err := t.set(text); err != nil {
		return fmt.Errorf("%s: %s: %w", from, t.Key, err)
	}
	t.from = from
	return nil
}

// Env is the name of the environment variable of a setting.
func (t *Setting) Env() string {
	return "KLOOP_" + strings.ToUpper(strings.ReplaceAll(t.Flag, "-", "_"))
}

// Environment takes what the environment sets; lookup is os.LookupEnv.
func (s *Sheet) Environment(lookup func(string) (string, bool)) error {
	for i := range s.list {
		t := &s.list[i]
		if text, ok := lookup(t.Env()); ok {
			if err := t.change(text, "environment "+t.Env()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Set sets one setting by its key, as a flag would; from says who asked. It is for other names of flags.
func (s *Sheet) Set(key, text, from string) error {
	t := s.find(key)
	if t == nil {
		return fmt.Errorf("there is no setting %s", key)
	}
	return t.change(text, from)
}

// ByFlag returns the key of the setting that has the flag for any of the commands, "" when none has, and whether its
// values add up when the flag is given several times.
func (s *Sheet) ByFlag(flag string, commands Commands) (key string, many bool) {
	for _, t := range s.list {
		if t.Flag == flag && t.For&commands != 0 {
			return t.Key, t.shape() >= list
		}
	}
	return "", false
}
