package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

var (
	reServerErr = regexp.MustCompile(`Error from server \((\w+)\)`)
	reAgeWord   = regexp.MustCompile(`(^|[\s(])(\d+[ydhms]){1,3}($|[\s)])`)
	reSpaces    = regexp.MustCompile(`\s{2,}`)
	reClock     = regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	reStamp     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

func (p *player) kubectl(k *Kubectl) (outcome, any, error) {
	args := []string{"--kubeconfig", p.o.kubeconfig, "--cache-dir", p.home + "/cache"}
	scoped := false
	for _, a := range k.Args {
		scoped = scoped || a == "-n" || a == "-A" || strings.HasPrefix(a, "--namespace") || a == "--all-namespaces"
	}
	if ns, ok := p.vars["ns"].(string); ok && !scoped {
		args = append(args, "--namespace", ns)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.o.kubectl, append(args, k.Args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "KUBECTL_EXTERNAL_DIFF=diff -u -N -L a -L b", "KUBERC=off")
	cmd.Stdin = k.input()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	f := map[string]any{"exit": cmd.ProcessState.ExitCode()}
	if err != nil && cmd.ProcessState == nil {
		return outcome{}, nil, err
	}
	if m := reServerErr.FindStringSubmatch(stderr.String()); m != nil {
		f["serverReason"] = m[1]
	}
	f["stderr"] = stderr.Len() > 0
	o := outcome{facts: f}
	switch k.As {
	case "none":
	case "json", "yaml":
		var v any
		if yaml.Unmarshal(stdout.Bytes(), &v) == nil {
			o.body = v
		}
		return o, v, nil
	case "keys":
		o.body = map[string]any{"keys": describeKeys(stdout.String())}
	default:
		lines := k.lines(stdout.String())
		if k.Sort { // after masking, see Record.Unordered
			n := newNormalizer(p.s, map[string]string{scalar(p.vars["ns"]): "NS", scalar(p.vars["id"]): "ID"})
			n.prepare()
			lines, _ = n.sorted(lines).([]any)
		}
		o.body = map[string]any{"stdout": lines}
	}
	return o, o.body, nil
}

// input returns a text or documents of YAML for kubectl to read; nil is nothing.
func (k *Kubectl) input() io.Reader {
	switch in := k.Stdin.(type) {
	case string:
		return strings.NewReader(in)
	case []any:
		var b strings.Builder
		for _, o := range in {
			y, _ := yaml.Marshal(o)
			b.WriteString("---\n" + string(y))
		}
		return strings.NewReader(b.String())
	case map[string]any:
		y, _ := yaml.Marshal(in)
		return bytes.NewReader(y)
	}
	return nil
}

// lines are those of a text, or the first of them, with times masked and columns two blanks apart.
func (k *Kubectl) lines(text string) []any {
	lines := []any{}
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		l = reClock.ReplaceAllString(l, "<clock>")
		l = reStamp.ReplaceAllString(l, "<time>")
		for range 2 {
			l = reAgeWord.ReplaceAllString(l, "$1<age>$3")
		}
		indent := l[:len(l)-len(strings.TrimLeft(l, " "))]
		l = indent + reSpaces.ReplaceAllString(strings.TrimSpace(l), "  ")
		lines = append(lines, l)
		if k.Lines > 0 && len(lines) == k.Lines {
			break
		}
	}
	return lines
}

// describeKeys keeps the headings of kubectl's describe and explain output.
func describeKeys(s string) []any {
	keys := []any{}
	for _, l := range strings.Split(s, "\n") {
		if strings.HasPrefix(l, "Events:") {
			keys = append(keys, "Events:")
			break
		}
		t := strings.TrimSpace(l)
		if i := strings.Index(t, ":"); i > 0 && i < 40 && !strings.Contains(t[:i], "  ") {
			keys = append(keys, l[:len(l)-len(strings.TrimLeft(l, " \t"))]+t[:i+1])
		}
	}
	return keys
}
