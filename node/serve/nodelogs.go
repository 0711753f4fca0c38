package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of a question for the node's logs, as upstream's (KEP-2258).
const (
	maxServices   = 4
	maxTailLines  = 100000
	queryPatience = 30 * time.Second
	maxQueried    = 64 << 20 // bytes of an answer
)

// nodeLogs answers with a file or directory of the node's logs, or with what services and files say that are asked for.
func (a *api) nodeLogs(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.SystemLogs == "" {
		return refusal{http.StatusNotFound, "this agent shows no logs of its node"}
	}
	root, err := os.OpenRoot(a.cfg.SystemLogs) // nothing outside can be reached through it, by links neither
	if err != nil {
		return fmt.Errorf("open the node's logs: %w", err)
	}
	defer root.Close()
	if _, asked := r.URL.Query()["query"]; !asked {
		http.StripPrefix("/logs", http.FileServerFS(root.FS())).ServeHTTP(w, r)
		return nil
	}
	if !a.cfg.SystemLogQuery {
		return refusal{http.StatusForbidden, "questions for the node's logs are off: set node.enableSystemLogQuery"}
	}
	q, err := readLogQuery(r.URL.Query())
	if err != nil {
		return refusal{http.StatusBadRequest, err.Error()}
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryPatience)
	defer cancel()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &bounded{w: w, left: maxQueried}
	for _, name := range q.files {
		if err := q.file(ctx, root.FS(), name, out); err != nil {
			fmt.Fprintf(out, "\n%v\n", err)
		}
	}
	if len(q.services) > 0 {
		q.journal(ctx, a.cfg.journalctl, root.FS(), out)
	}
	return nil
}

// A bounded writer passes on so many bytes, and then fails.
type bounded struct {
	w    io.Writer
	left int
}

var errTooMuch = errors.New("there is more than an answer may hold")

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, errTooMuch
	}
	b.left -= len(p)
	return b.w.Write(p)
}

// A logQuery is a query for the node's logs.
type logQuery struct {
	services, files []string
	since, until    string // RFC 3339
	tail            int    // lines; -1: all
	boot            string
	pattern         string
}

var serviceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9:._@\\-]*$`)

// readLogQuery reads the parameters of a question. An error says which can't be meant.
func readLogQuery(v url.Values) (q logQuery, err error) {
	q.tail = -1
	for _, name := range v["query"] {
		switch {
		case strings.Contains(name, "/"):
			name = strings.TrimPrefix(name, "/")
			if !fs.ValidPath(name) {
				return q, fmt.Errorf("query: %q is no file below the node's logs", name)
			}
			q.files = append(q.files, name)
		case serviceName.MatchString(name):
			q.services = append(q.services, name)
		default:
			return q, fmt.Errorf("query: %q is neither a service nor a file", name)
		}
	}
	if n := len(q.services) + len(q.files); n == 0 || n > maxServices {
		return q, fmt.Errorf("query: ask for one to %d services or files, not for %d", maxServices, n)
	}
	for key, to := range map[string]*string{"sinceTime": &q.since, "untilTime": &q.until} {
		if *to = v.Get(key); *to != "" {
			if _, err := time.Parse(time.RFC3339, *to); err != nil {
				return q, fmt.Errorf("%s: %q is no time, as 2026-01-02T15:04:05Z", key, *to)
			}
		}
	}
	if text := v.Get("tailLines"); text != "" {
		if q.tail, err = strconv.Atoi(text); err != nil || q.tail < 0 || q.tail > maxTailLines {
			return q, fmt.Errorf("tailLines: %q is not between 0 and %d", text, maxTailLines)
		}
	}
	if q.boot = v.Get("boot"); q.boot != "" {
		if n, err := strconv.Atoi(q.boot); err != nil || n > 0 {
			return q, fmt.Errorf("boot: %q: want 0 for this one, -1 for the one before…", q.boot)
		}
	}
	q.pattern = v.Get("pattern")
	if _, err := regexp.Compile(q.pattern); err != nil {
		return q, fmt.Errorf("pattern: %w", err)
	}
	return q, nil
}

// file writes the lines of a log file that are asked for. Times are the journal's alone. The file may be of any size: of the last lines
// that match it keeps as many as an answer may hold.
func (q logQuery) file(ctx context.Context, logs fs.FS, name string, out io.Writer) error {
	f, err := logs.Open(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	match := regexp.MustCompile(q.pattern) // it was tried when the question was read
	last := lastLines{most: q.tail}
	lines, room := bufio.NewReaderSize(f, 64<<10), make([]byte, 0, maxLine)
	for {
		line, err := readLine(lines, room)
		if len(line) > 0 && match.Match(line) {
			if q.tail >= 0 {
				last.add(line)
			} else if _, err := out.Write(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return last.write(out)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// readLine reads a line with its end into room. What is longer than room comes in pieces.
func readLine(r *bufio.Reader, room []byte) (line []byte, err error) {
	line = room[:0]
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line)+r.Size() > cap(line) {
			return line, nil
		}
	}
}

// lastLines are the last lines of a text: at most so many, and no more bytes than an answer may hold.
type lastLines struct {
	most  int
	lines [][]byte
	bytes int
}

func (l *lastLines) add(line []byte) {
	l.lines, l.bytes = append(l.lines, bytes.Clone(line)), l.bytes+len(line)
	for len(l.lines) > l.most || l.bytes > maxQueried {
		l.bytes -= len(l.lines[0])
		l.lines[0] = nil
		l.lines = l.lines[1:]
	}
}

func (l *lastLines) write(out io.Writer) error {
	for _, line := range l.lines {
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// journal writes what services said: by the journal, or by their files where the journal has nothing of them.
func (q logQuery) journal(ctx context.Context, program string, logs fs.FS, out io.Writer) {
	for _, name := range q.services {
		found := false
		for _, path := range []string{name, name + ".log", name + "/" + name + ".log"} {
			if info, err := fs.Stat(logs, path); err == nil && info.Mode().IsRegular() && !found {
				found = true
				if err := q.file(ctx, logs, path, out); err != nil {
					fmt.Fprintf(out, "\n%v\n", err)
				}
			}
		}
		if found {
			continue
		}
		cmd := exec.CommandContext(ctx, program, q.arguments(name)...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = out, &bounded{w: &said, left: 4096}
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(out, "\nthe journal of %s: %v %s\n", name, err, said.String())
		}
	}
}

// arguments are those of journalctl.
func (q logQuery) arguments(service string) []string {
	list := []string{"--utc", "--no-pager", "--output=short-precise", "--unit=" + service}
	for _, o := range []struct{ name, value string }{{"--since", q.since}, {"--until", q.until}, {"--boot", q.boot}, {"--grep", q.pattern}} {
		if o.value != "" {
			list = append(list, o.name+"="+o.value)
		}
	}
	if q.tail >= 0 {
		list = append(list, "--lines="+strconv.Itoa(q.tail))
	}
	return list
}
