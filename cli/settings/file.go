package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kloop-dev/kloop/strict"
)

// What a file must say of itself.
const (
	APIVersion = "kloop.dev/v1alpha1"
	Kind       = "Config"
)

// maxFile is the size in bytes of the largest file that is read.
const maxFile = 1 << 20

// Load takes what a file sets. Every error names the file and the line.
func (s *Sheet) Load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	return s.read(path, f)
}

func (s *Sheet) read(name string, r io.Reader) error {
	dec := yaml.NewDecoder(io.LimitReader(r, maxFile))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the configuration: %s: %w", name, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the configuration: %s: one document is enough", name)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("read the configuration: %s: want keys and values, starting with apiVersion: %s and kind: %s", name, APIVersion, Kind)
	}
	l := loading{s: s, file: name, seen: map[string]int{}}
	if err := l.header(doc.Content[0]); err != nil {
		return err
	}
	return errors.Join(l.level("", doc.Content[0])...)
}

// loading is the reading of one file.
type loading struct {
	s    *Sheet
	file string
	seen map[string]int // lines of keys
}

func (l *loading) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", l.file, n.Line) }

// header checks apiVersion and kind.
func (l *loading) header(top *yaml.Node) error {
	for key, want := range map[string]string{"apiVersion": APIVersion, "kind": Kind} {
		got := ""
		at := top
		for i := 0; i+1 < len(top.Content); i += 2 {
			if top.Content[i].Value == key {
				at, got = top.Content[i], top.Content[i+1].Value
			}
		}
		if got != want {
			return fmt.Errorf("%s: %s is %q: this kloop reads %s: %s", l.at(at), key, got, key, want)
		}
	}
	return nil
}

// level takes the keys of one mapping; above is the path to it.
func (l *loading) level(above string, n *yaml.Node) (errs []error) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if above == "" && (key.Value == "apiVersion" || key.Value == "kind") {
			continue
		}
		path := strings.TrimPrefix(above+"."+key.Value, ".")
		if line, twice := l.seen[path]; twice {
			errs = append(errs, fmt.Errorf("%s: %s is set in line %d already", l.at(key), path, line))
			continue
		}
		l.seen[path] = key.Line
		if err := l.key(path, key, resolved(val)); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (l *loading) key(path string, key, val *yaml.Node) error {
	if t := l.s.find(path); t != nil {
		if val.Tag == "!!null" {
			return nil // said, but nothing
		}
		text, err := written(t.shape(), val)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", l.at(val), path, err)
		}
		return t.change(text, l.at(key))
	}
	if flag, group := kubeProxyArg(path); flag != "" {
		return l.proxyArg(flag, key, val)
	} else if group && val.Kind == yaml.MappingNode {
		return errors.Join(l.level(path, val)...)
	}
	siblings, group := l.s.below(path)
	switch {
	case !group:
		return fmt.Errorf("%s: there is no setting %s%s", l.at(key), path, strict.Meant(key.Value, l.s.names(parent(path))))
	case val.Tag == "!!null":
		return nil
	case val.Kind != yaml.MappingNode:
		return fmt.Errorf("%s: %s holds the settings %s", l.at(val), path, strings.Join(siblings, ", "))
	}
	return errors.Join(l.level(path, val)...)
}

// kubeProxyArg finds the arguments of kube-proxy, where files of RKE have them: services.kubeproxy.extra_args, whole or from kubeproxy on.
// group: the path leads there.
func kubeProxyArg(path string) (flag string, group bool) {
	path = strings.TrimPrefix(path, "services.")
	flag, _ = strings.CutPrefix(path, "kubeproxy.extra_args.")
	if flag != path {
		return flag, false
	}
	return "", path == "services" || path == "kubeproxy" || path == "kubeproxy.extra_args"
}

// proxyArg takes one of them: a setting of ours that has its name.
func (l *loading) proxyArg(flag string, key, val *yaml.Node) error {
	for i := range l.s.list {
		t := &l.s.list[i]
		if t.Flag != flag || !strings.HasPrefix(t.Key, "proxy.") {
			continue
		}
		text, err := written(t.shape(), val)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", l.at(val), flag, err)
		}
		return t.change(text, l.at(key))
	}
	return fmt.Errorf("%s: kloop has no argument %s of kube-proxy", l.at(key), flag)
}

// resolved follows an alias.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// written is a value as text, if it has the shape.
func written(want shape, n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && want != mapping:
		return n.Value, nil
	case n.Kind == yaml.SequenceNode && want == list:
		return join(n.Content, func(i int) (string, error) { return plain(n.Content[i]) }, 1)
	case n.Kind == yaml.MappingNode && want == mapping:
		return join(n.Content, func(i int) (string, error) {
			v, err := plain(n.Content[i+1])
			return n.Content[i].Value + "=" + v, err
		}, 2)
	}
	return "", map[shape]error{scalar: errors.New("want one value"), truth: errors.New("want true or false"),
		list: errors.New("want a list: [a, b]"), mapping: errors.New("want names and values")}[want]
}

func join(nodes []*yaml.Node, each func(i int) (string, error), step int) (string, error) {
	var parts []string
	for i := 0; i < len(nodes); i += step {
		s, err := each(i)
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ","), nil
}

func plain(n *yaml.Node) (string, error) {
	if n = resolved(n); n.Kind != yaml.ScalarNode || strings.Contains(n.Value, ",") {
		return "", errors.New("want plain values, without commas")
	}
	return n.Value, nil
}

func parent(path string) string {
	if i := strings.LastIndex(path, "."); i >= 0 {
		return path[:i]
	}
	return ""
}

// below lists the settings of a group, and says whether there is such a group.
func (s *Sheet) below(path string) (keys []string, ok bool) {
	for _, t := range s.list {
		if rest, in := strings.CutPrefix(t.Key, path+"."); in {
			keys = append(keys, rest)
		}
	}
	return keys, len(keys) > 0
}

// names are the words that may stand on the level below path.
func (s *Sheet) names(path string) (list []string) {
	for _, t := range s.list {
		rest := t.Key
		if path != "" {
			var in bool
			if rest, in = strings.CutPrefix(t.Key, path+"."); !in {
				continue
			}
		}
		first, _, _ := strings.Cut(rest, ".")
		list = append(list, first)
	}
	return list
}
