package need

import (
	"errors"
	"testing"
)

// recorder stands for a test and remembers what was done to it.
type recorder struct {
	testing.TB
	did string
}

func (r *recorder) Helper()               {}
func (r *recorder) Skipf(string, ...any)  { r.did = "skipped" }
func (r *recorder) Fatalf(string, ...any) { r.did = "failed" }

func TestHave(t *testing.T) {
	missing := errors.New("is not there")
	for _, tt := range []struct {
		name, must string
		problem    error
		want       string
	}{
		{"there", "root,etcd", nil, ""},
		{"missing", "", missing, "skipped"},
		{"demanded", "root,etcd", missing, "failed"},
		{"another is demanded", "root", missing, "skipped"},
		{"a part of a name", "etcdctl", missing, "skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KLOOP_MUST", tt.must)
			r := &recorder{}
			if Have(r, Etcd, tt.problem); r.did != tt.want {
				t.Errorf("%q, want %q", r.did, tt.want)
			}
		})
	}
}
