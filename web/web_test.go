package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxPage is the size of all files together, in bytes.
const maxPage = 300 << 10

// inline is code or style that the policy would refuse, and what makes markup of strings.
var inline = regexp.MustCompile(`(?i)\son[a-z]+\s*=\s*["']|<script(?:>|[^>]*[^>]>[^<])|<style|\sstyle=|javascript:|https?://`)

var sinks = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|` +
	`localStorage|sessionStorage|document\.cookie`)

func TestFiles(t *testing.T) {
	all, err := served()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, f := range all {
		sum += len(f.body)
		text := string(f.body)
		if f.kind == "" {
			t.Errorf("%s has no type", name)
		}
		if found := sinks.FindString(text); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		if strings.HasSuffix(name, ".html") {
			if found := inline.FindString(text); found != "" {
				t.Errorf("%s has %q in it", name, found)
			}
		}
		for _, m := range regexp.MustCompile(`(?:from|import\()\s*"\./([^"]+)"|(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(text, -1) {
			if _, ok := all[m[1]+m[2]]; !ok {
				t.Errorf("%s needs %s, which is not there", name, m[1]+m[2])
			}
		}
	}
	if sum > maxPage {
		t.Errorf("the page has %d bytes, more than %d", sum, maxPage)
	}
	t.Logf("%d files, %d bytes", len(all), sum)
}

// TestPacked: the program holds the files below page as they are (KLOOP_WRITE=1 packs them).
func TestPacked(t *testing.T) {
	entries, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("page", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		want[e.Name()] = string(text)
	}
	if os.Getenv("KLOOP_WRITE") != "" {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		werr := json.NewEncoder(z).Encode(want)
		if err := errors.Join(werr, z.Close(), os.WriteFile("page.json.gz", out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command("../scripts/squeeze", "page.json.gz").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		packed, err = os.ReadFile("page.json.gz")
		if err != nil {
			t.Fatal(err)
		}
	}
	if have, err := unpack(); err != nil || len(have) == 0 || !maps.Equal(have, want) {
		t.Fatalf("web/page is not what is packed, %v: KLOOP_WRITE=1 go test ./web -run TestPacked", err)
	}
}

func TestServePage(t *testing.T) {
	get := func(method, path, tag string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w := httptest.NewRecorder()
		ServePage(w, r)
		return w.Result()
	}
	page := get("GET", "/ui/", "")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"require-trusted-types-for 'script'"} {
		if !strings.Contains(page.Header.Get("Content-Security-Policy"), part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	if strings.Contains(page.Header.Get("Content-Security-Policy"), "unsafe") {
		t.Error("the policy allows something unsafe")
	}
	for _, tt := range []struct {
		method, path, tag string
		code              int
		kind              string
	}{
		{"GET", "/ui/", "", 200, "text/html; charset=utf-8"},
		{"HEAD", "/ui/main.js", "", 200, "text/javascript; charset=utf-8"},
		{"GET", "/ui/style.css", "", 200, "text/css; charset=utf-8"},
		{"GET", "/ui/icon.svg", "", 200, "image/svg+xml"},
		{"GET", "/ui/", page.Header.Get("ETag"), 304, ""},
		{"GET", "/ui", "", 308, "text/html; charset=utf-8"},
		{"GET", "/ui/none.js", "", 404, "text/plain; charset=utf-8"},
		{"GET", "/ui/../web.go", "", 404, "text/plain; charset=utf-8"},
		{"POST", "/ui/", "", 405, "text/plain; charset=utf-8"},
	} {
		t.Run(tt.method, func(t *testing.T) {
			res := get(tt.method, tt.path, tt.tag)
			if res.StatusCode != tt.code || res.Header.Get("Content-Type") != tt.kind {
				t.Errorf("%s %s: %s, %s", tt.method, tt.path, res.Status, res.Header.Get("Content-Type"))
			}
		})
	}
}
