package profiles

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// Every profile comes in the form that go tool pprof reads, or as text; what is not there, and a difference, is refused.
func TestServe(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Serve(w, r, strings.TrimPrefix(r.URL.Path, "/"))
	}))
	defer s.Close()
	here := fmt.Sprintf("%#x", reflect.ValueOf(TestServe).Pointer())
	for _, tt := range []struct {
		path string
		code int
		says string // "": a profile in gzip
	}{
		{"/", 200, "\tgoroutine\n"}, {"/goroutine?debug=2", 200, "TestServe"}, {"/heap?gc=1&debug=1", 200, "heap profile"},
		{"/cmdline", 200, "test"}, {"/symbol?" + here, 200, here + " github.com/kloop-dev/kloop/internal/profiles.TestServe"},
		{"/heap", 200, ""}, {"/allocs", 200, ""}, {"/mutex", 200, ""}, {"/profile?seconds=0.01", 200, ""},
		{"/trace?seconds=0.01", 200, "go 1."}, {"/nothing", 404, "no such profile"}, {"/heap?seconds=1", 400, "-base"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			res, err := http.Get(s.URL + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != tt.code || !strings.Contains(string(body), tt.says) {
				t.Errorf("%s: %d, %v: %.200q", tt.path, res.StatusCode, err, body)
			}
			if _, err := gzip.NewReader(bytes.NewReader(body)); tt.says == "" && err != nil {
				t.Errorf("%s is no profile: %v", tt.path, err)
			}
		})
	}
}
