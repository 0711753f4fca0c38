package settings

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/strict"
)

// Bind makes the flags of a command, --config among them; file is its value after parsing.
func (s *Sheet) Bind(fs *flag.FlagSet, command Commands) (file *string) {
	for i := range s.list {
		if t := &s.list[i]; t.For&command != 0 {
			fs.Var(flagValue{s, t}, t.Flag, strings.ReplaceAll(t.Doc, "`", ""))
		}
	}
	s.config = fs.String("config", "", "file with settings, see docs/config.md; flags go before it")
	return s.config
}

// Fill takes what the file and the environment say, in the order of their authority, after flags were parsed. Its errors are those of who
// set them.
func (s *Sheet) Fill(file string, lookup func(string) (string, bool)) error {
	return strict.Refuse(s.fill(file, lookup))
}

func (s *Sheet) fill(file string, lookup func(string) (string, bool)) error {
	s.file, s.lookup = file, lookup
	if file != "" {
		if err := s.Load(file); err != nil {
			return err
		}
	}
	if err := s.Environment(lookup); err != nil {
		return err
	}
	for key, texts := range s.flagged {
		t := s.find(key)
		if err := t.change(strings.Join(texts, ","), "flag --"+t.Flag); err != nil {
			return err
		}
	}
	return nil
}

// Shared returns the flags that were given and are another command's as well, --config among them, as arguments for it.
func (s *Sheet) Shared(command Commands) (args []string) {
	for _, t := range s.list {
		for _, text := range s.flagged[t.Key] {
			if t.For&command != 0 {
				args = append(args, "--"+t.Flag+"="+text)
			}
		}
	}
	if s.config != nil && *s.config != "" {
		args = append(args, "--config="+*s.config)
	}
	return args
}

// flagValue is a setting as a flag. The value given is noted, and has the last word in Fill. Flags of lists and
// maps may be given several times.
type flagValue struct {
	s *Sheet
	t *Setting
}

// String implements flag.Value.
func (f flagValue) String() string {
	if f.t == nil { // package flag asks the zero value for the zero default
		return ""
	}
	return f.t.text()
}

// Set implements flag.Value.
func (f flagValue) Set(text string) error {
	texts := []string{text}
	if f.t.shape() >= list {
		texts = append(f.s.flagged[f.t.Key], text)
	}
	f.s.flagged[f.t.Key] = texts
	return f.t.set(strings.Join(texts, ","))
}

// Section is the heading of the setting in help: the first part of its key.
func (f flagValue) Section() string {
	above, _, nested := strings.Cut(f.t.Key, ".")
	if !nested {
		return ""
	}
	return above
}

// IsBoolFlag lets a flag stand without a value.
func (f flagValue) IsBoolFlag() bool { return f.t != nil && f.t.shape() == truth }

// Explain is the answer to arguments that the flags of fs do not know: the flag that was probably meant.
func Explain(fs *flag.FlagSet, args []string) string {
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if a != "" && a[0] == '-' && len(name) > 2 && fs.Lookup(name) == nil {
			return strings.Replace(strict.Meant(name, known), "mean ", "mean --", 1)
		}
	}
	return ""
}

// Flags are the values of all settings by their flags, without secrets.
func (s *Sheet) Flags() map[string]string {
	all := map[string]string{}
	for i := range s.list {
		t := &s.list[i]
		all[t.Flag] = t.public().text()
	}
	return all
}

// public is the value of a setting as everybody may see it.
func (t *Setting) public() value {
	shown := t.text()
	switch t.Key {
	case "peers.token":
		if shown != "" {
			shown = "CLASSIFIED"
		}
	case "trail.export":
		if u, err := url.Parse(shown); err == nil {
			shown = u.Redacted()
		}
	default:
		return t.value
	}
	return text{&shown}
}

// An Effect is a setting as it is in effect, for programs.
type Effect struct {
	Key   string `json:"key"`
	Flag  string `json:"flag,omitempty"`
	Value any    `json:"value"` // text, true or false, a list or an object
	From  string `json:"from"`  // default, the file and line, the environment variable or the flag
}

// Effects are all settings as Show writes them.
func (s *Sheet) Effects() (list []Effect, err error) {
	for i := range s.list {
		t := &s.list[i]
		e := Effect{Key: t.Key, Flag: t.Flag, From: cmp.Or(t.from, "default")}
		if err := yaml.Unmarshal([]byte(shown(t.public())), &e.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Key, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// Show writes the effective settings as a file that Load would take, but for secrets, and behind each where it came from.
func (s *Sheet) Show(w io.Writer) error {
	lines := []string{"apiVersion: " + APIVersion, "kind: " + Kind}
	group := ""
	for i := range s.list {
		t := &s.list[i]
		from := cmp.Or(t.from, "default")
		if g, ok := t.value.(gates); ok {
			if idle := cluster.Idle(s.find("emulatedVersion").text(), *g.p); len(idle) > 0 {
				from += "; no effect in kloop: " + strings.Join(idle, ", ")
			}
		}
		above, name, nested := strings.Cut(t.Key, ".")
		indent := ""
		if !nested {
			name = above
			above = ""
		} else {
			indent = "  "
		}
		if above != group && above != "" {
			lines = append(lines, above+":")
		}
		group = above
		lines = append(lines, fmt.Sprintf("%-60s # %s", indent+name+": "+shown(t.public()), from))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// shown is a value as YAML, on one line.
func shown(v value) string {
	text := v.text()
	switch v.shape() {
	case truth:
		return text
	case list:
		var parts []string
		for _, p := range split(text) {
			parts = append(parts, fmt.Sprintf("%q", p))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case mapping:
		return "{" + strings.ReplaceAll(strings.ReplaceAll(text, "=", ": "), ",", ", ") + "}"
	}
	return fmt.Sprintf("%q", text)
}

// Markdown is the table of docs/config.md.
func (s *Sheet) Markdown() string {
	var b strings.Builder
	b.WriteString("| key | flag | default | changes by | what it does |\n|---|---|---|---|---|\n")
	for i := range s.list {
		t := &s.list[i]
		def := t.text()
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", t.Key, t.Flag, def, Live(t.Key), t.Doc)
	}
	return b.String()
}
