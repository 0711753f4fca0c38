package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct{ line, want, err string }{
		{"--secure-port=1 --bind-address 127.0.0.1", "secure-port=1 bind-address=127.0.0.1", ""},
		{"--allow-privileged --anonymous-auth=false", "allow-privileged=true anonymous-auth=false", ""},
		{"--secure_port=1", "secure-port=1", ""},
		{"-v=4", "v=4", ""},
		{"-v 4", "v=4", ""},
		{"--etcd-servers=http://a,http://b --etcd-servers http://c", "etcd-servers=http://a,http://b etcd-servers=http://c", ""},
		{"--secure-prot=1", "", "unknown flag: --secure-prot; did you mean secure-port?"},
		{"--insecure-port=0", "", "unknown flag: --insecure-port"},
		{"--secure-port", "", "flag needs a value: --secure-port"},
		{"run", "", `what is "run"?`},
		{"-x", "", `what is "-x"?`},
		{"--", "", `what is "--"?`},
		{"--secure-port=1 --help", "", ErrHelp.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			flags, err := APIServer().Parse(strings.Fields(tt.line))
			var got []string
			for _, f := range flags {
				got = append(got, f.Name+"="+f.Value)
			}
			if strings.Join(got, " ") != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s:\ngot  %v, %v\nwant %s %s", tt.line, got, err, tt.want, tt.err)
			}
		})
	}
	if _, err := APIServer().Parse([]string{"-h"}); !errors.Is(err, ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

// TestHelp is what envtest looks at: whether there are lines that begin with a flag.
func TestHelp(t *testing.T) {
	var b bytes.Buffer
	Etcd().Help(&b, func(f string) bool { return f == "data-dir" })
	for _, flag := range []string{"unsafe-no-fsync", "data-dir"} {
		if !strings.Contains(b.String(), fmt.Sprintf("\n      --%s\n", flag)) {
			t.Errorf("--%s is missing in\n%s", flag, b.String())
		}
	}
}

func TestTables(t *testing.T) {
	for _, p := range []Program{APIServer(), Etcd()} {
		all := slices.Concat(p.Switches, p.Valued)
		slices.Sort(all)
		for i := 1; i < len(all); i++ {
			if all[i] == all[i-1] {
				t.Errorf("%s: --%s is listed twice", p.Name, all[i])
			}
		}
	}
}
