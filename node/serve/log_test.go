package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sample = `2026-01-02T03:04:05.000000001Z stdout F one
2026-01-02T03:04:06Z stderr F two
2026-01-02T03:04:07Z stdout P th
2026-01-02T03:04:07Z stdout F ree
not a line of a log
2026-01-02T03:04:08Z stdout F 
2026-01-02T03:04:09.5+01:00 stdout F four five
`

func sampleLog(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogOptions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 10, 0, time.UTC)
	for query, want := range map[string]string{
		"":                                 "one\ntwo\nthree\n\nfour five\n",
		"tailLines=0":                      "",
		"tailLines=1":                      "four five\n",
		"tailLines=2":                      "\nfour five\n",
		"tailLines=100":                    "one\ntwo\nthree\n\nfour five\n",
		"tailLines=all":                    "one\ntwo\nthree\n\nfour five\n",
		"limitBytes=5":                     "one\nt",
		"limitBytes=4":                     "one\n",
		"tailLines=1&limitBytes=4":         "four",
		"stream=Stderr":                    "two\n",
		"stream=Stdout&limitBytes=9":       "one\nthree",
		"sinceSeconds=2":                   "\n", // the last one's zone is an hour ahead
		"sinceTime=2026-01-02T03:04:07Z":   "three\n\n",
		"sinceTime=2026-01-02T03:04:05.5Z": "two\nthree\n\n",
		"timestamps=true&tailLines=1":      "2026-01-02T03:04:09.5+01:00 four five\n",
		"timestamps=1&stream=Stdout&limit=99": "2026-01-02T03:04:05.000000001Z one\n2026-01-02T03:04:07Z three\n2026-01-02T03:04:08Z \n" +
			"2026-01-02T03:04:09.5+01:00 four five\n",
	} {
		t.Run(query, func(t *testing.T) {
			q, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			o, err := readWish(q, now)
			if err != nil {
				t.Fatal(query, err)
			}
			if got := readLog(t, sampleLog(t, sample), o); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		})
	}
	for _, query := range []string{"tailLines=-1", "tailLines=x", "limitBytes=1e3", "sinceSeconds=a", "sinceTime=yesterday", "stream=stdin"} {
		q, _ := url.ParseQuery(query)
		if _, err := readWish(q, now); err == nil {
			t.Errorf("%s: no error", query)
		}
	}
}

func readLog(t *testing.T, path string, o wish) string {
	t.Helper()
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var out bytes.Buffer
	if err := l.copy(t.Context(), &out, func() {}, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLogOfTheEnded: what a runtime has still to write when a container has ended is not left out.
func TestLogOfTheEnded(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprintf("ended %t", ended), func(t *testing.T) {
			path := sampleLog(t, "")
			want := ""
			if ended {
				want = "four five\n"
			}
			got := readLog(t, path, wish{tail: 1, limit: -1, ended: ended, settled: func(_ context.Context, p string) {
				if err := os.WriteFile(p, []byte(sample), 0o600); err != nil {
					t.Error(err)
				}
			}})
			if got != want {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
}

func TestTailOfLongLog(t *testing.T) {
	var log, want strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&log, "2026-01-02T03:04:05Z stdout F line %d %s\n", i, strings.Repeat("x", i%100))
		if i >= 5000-1234 {
			fmt.Fprintf(&want, "line %d %s\n", i, strings.Repeat("x", i%100))
		}
	}
	if got := readLog(t, sampleLog(t, log.String()), wish{tail: 1234, limit: -1}); got != want.String() {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
	// A line longer than any buffer, and one without an end.
	long := strings.Repeat("y", 200<<10)
	path := sampleLog(t, "2026-01-02T03:04:05Z stdout F "+long+"\n2026-01-02T03:04:05Z stdout F rest")
	if got := readLog(t, path, wish{tail: -1, limit: -1}); got != long+"\nrest\n" {
		t.Errorf("%d bytes", len(got))
	}
	if got := readLog(t, path, wish{tail: 1, limit: -1}); got != "rest\n" {
		t.Errorf("the last line: %q", got)
	}
}

// patience is the time for which a test waits for what must come.
const patience = 5 * time.Minute

// A follower reads along in the background; got receives what has been read each time it has caught up.
type follower struct {
	got  chan string
	done chan error
	buf  bytes.Buffer
}

func follow(t *testing.T, ctx context.Context, path string, o wish) *follower {
	t.Helper()
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{got: make(chan string, 100), done: make(chan error, 1)}
	o.follow = true
	go func() {
		defer l.close()
		f.done <- l.copy(ctx, &f.buf, func() { f.got <- f.buf.String() }, o)
	}()
	return f
}

func (f *follower) expect(t *testing.T, want string) {
	t.Helper()
	last := ""
	for end := time.After(patience); ; {
		select {
		case last = <-f.got:
			if last == want {
				return
			}
		case <-end:
			t.Fatalf("read %q, want %q", last, want)
		}
	}
}

func TestFollow(t *testing.T) {
	path := sampleLog(t, "2026-01-02T03:04:05Z stdout F one\n2026-01-02T03:04:05Z std")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	f := follow(t, t.Context(), path, wish{tail: -1, limit: -1, alive: func(context.Context) bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	}, settled: func(context.Context, string) { add("2026-01-02T03:04:07Z stderr F the runtime was not done\n") }})
	f.expect(t, "one\n")
	add("out F two\n")
	f.expect(t, "one\ntwo\n")
	if err := os.Rename(path, path+".20260102"); err != nil { // rotation: the runtime may write to the old file a while
		t.Fatal(err)
	}
	old, err := os.OpenFile(path+".20260102", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(old, "2026-01-02T03:04:06Z stdout F last of old\n")
	old.Close()
	add("2026-01-02T03:04:07Z stdout F first of new\n")
	f.expect(t, "one\ntwo\nlast of old\nfirst of new\n")
	add("2026-01-02T03:04:07Z stdout F more\n")
	f.expect(t, "one\ntwo\nlast of old\nfirst of new\nmore\n")
	add("2026-01-02T03:04:07Z stderr F bye\n")
	close(over)
	f.expect(t, "one\ntwo\nlast of old\nfirst of new\nmore\nbye\nthe runtime was not done\n")
	if err := <-f.done; err != nil {
		t.Error(err)
	}
}

func TestFollowEnds(t *testing.T) {
	alive := func(context.Context) bool { return true }
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(t, ctx, sampleLog(t, sample), wish{tail: 1, limit: -1, alive: alive})
	f.expect(t, "four five\n")
	cancel()
	if err := <-f.done; err != context.Canceled {
		t.Errorf("after the caller has gone: %v", err)
	}
	f = follow(t, t.Context(), sampleLog(t, sample), wish{tail: -1, limit: 6, alive: alive})
	if err := <-f.done; err != nil || f.buf.String() != "one\ntw" {
		t.Errorf("at the limit: %q %v", f.buf.String(), err)
	}
}

func TestFollowWithoutInotify(t *testing.T) {
	path := sampleLog(t, sample)
	n := &news{path: path}
	if n.wait(t.Context(), poll) {
		t.Error("news of a file that did not change")
	}
	got := make(chan bool, 1)
	was := time.Now()
	go func() { got <- n.wait(t.Context(), time.Minute) }()
	for done := false; !done; { // grow until it is seen: the first look may come after the first growth
		if err := os.WriteFile(path, fmt.Append(nil, sample, time.Since(was)), 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case ok := <-got:
			if done = true; !ok {
				t.Error("no news of a file that grew")
			}
		case <-time.After(poll / 4):
		}
	}
}

// FuzzParse: no line of a log, whoever wrote it, breaks the reader, and a text is given out as it stands there.
func FuzzParse(f *testing.F) {
	for line := range strings.Lines(sample) {
		f.Add([]byte(line))
	}
	f.Add([]byte("2026-01-02T03:04:05Z stdout P:x \n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := parse(line)
		if !ok {
			return
		}
		want := e.text
		if e.part {
			want = append(bytes.Clone(want), '\n')
		}
		if !bytes.HasSuffix(line, e.text) && !bytes.HasSuffix(line, want) {
			t.Errorf("%q gives %q", line, e.text)
		}
	})
}
