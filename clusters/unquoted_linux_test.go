package clusters

import (
	"slices"
	"testing"
)

func TestUnquoted(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		want       []string
	}{
		{"nothing", "", nil},
		{"plain", "-D PREROUTING -j CNI-HOSTPORT-DNAT", []string{"-D", "PREROUTING", "-j", "CNI-HOSTPORT-DNAT"}},
		{"a comment", `-m comment --comment "portfwd requiring masquerade" -j X`,
			[]string{"-m", "comment", "--comment", "portfwd requiring masquerade", "-j", "X"}},
		{"quotes within", `--comment "dnat name: \"kloop\" id: \"a\"" -j X`, []string{"--comment", `dnat name: "kloop" id: "a"`, "-j", "X"}},
		{"what a shell would run", `--comment "$(touch /x) \\ \` + "`" + `y" -j X`, []string{"--comment", "$(touch /x) \\ `y", "-j", "X"}},
		{"an empty one", `--comment "" -j X`, []string{"--comment", "", "-j", "X"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := unquoted(tt.rule); !slices.Equal(got, tt.want) {
				t.Errorf("%q", got)
			}
		})
	}
}
