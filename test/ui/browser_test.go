package ui

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/need"
)

// patience bounds every wait for the browser.
const patience = 60 * time.Second

// A tab is a page in a headless Chromium, driven over its DevTools protocol.
type tab struct {
	t    *testing.T
	conn *websocket.Conn

	session string

	mu      sync.Mutex
	next    int
	answers map[int]chan answer // nil: the browser has ended
	said    []string            // errors and violated policies that the page told of
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// open starts a browser with one empty page. It ends with the test.
func open(t *testing.T, more ...string) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	need.Have(t, need.Browser, err)
	dir := t.TempDir()
	// A machine without a display, a GPU, or a network: nothing but the loopback is asked for.
	args := append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--remote-debugging-port=0", "--user-data-dir=" + dir,
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1360,860"}, more...)
	cmd := exec.Command(program, append(args, "about:blank")...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children write into the directory for a while, if they are left alone
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		await(t, func() error { return os.RemoveAll(dir) })
	})
	var port, path string
	await(t, func() error {
		data, err := os.ReadFile(filepath.Join(dir, "DevToolsActivePort"))
		var ok bool
		if port, path, ok = strings.Cut(strings.TrimSpace(string(data)), "\n"); err == nil && !ok {
			err = errors.New("the browser has not written its port yet")
		}
		return err
	})
	conn, _, err := websocket.DefaultDialer.Dial("ws://127.0.0.1:"+port+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, conn: conn, answers: map[int]chan answer{}}
	go b.listen()
	t.Cleanup(func() { _ = conn.Close() })
	return b.attach()
}

// await calls f until it returns no error.
func await(t *testing.T, f func() error) {
	t.Helper()
	eventually.Sees(t, patience, "the page", func() (bool, error) {
		err := f()
		return err == nil, err
	})
}

// attach makes a page and speaks to it from now on.
func (b *tab) attach() *tab {
	var made struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var on struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &on)
	b.session = on.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", map[string]any{}, nil)
	}
	return b
}

// listen hands answers to those who wait, and keeps what the page complains of.
func (b *tab) listen() {
	for {
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			answer
		}
		err := b.conn.ReadJSON(&m)
		b.mu.Lock()
		if err != nil {
			for _, c := range b.answers {
				close(c)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		switch c := b.answers[m.ID]; {
		case c != nil:
			delete(b.answers, m.ID)
			c <- m.answer
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded" && complaint(m.Params):
			b.said = append(b.said, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// complaint says that an entry of the browser's log is the page's fault; that an answer has the status 4xx is not.
func complaint(params json.RawMessage) bool {
	var p struct {
		Entry struct{ Source, Level, Text string }
	}
	return json.Unmarshal(params, &p) == nil && p.Entry.Level == "error" && p.Entry.Source != "network"
}

// do calls a method of the protocol.
func (b *tab) do(method string, params map[string]any, into any) {
	b.t.Helper()
	if err := b.try(method, params, into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) try(method string, params map[string]any, into any) error {
	c := make(chan answer, 1)
	b.mu.Lock()
	if b.answers == nil {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.next++
	b.answers[b.next] = c
	msg := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	err := b.conn.WriteJSON(msg)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a, ok := <-c:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case into != nil:
			return json.Unmarshal(a.Result, into)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer", method)
	}
}

// eval runs an expression in the page and decodes its value.
func (b *tab) eval(code string, into any) error {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := b.try("Runtime.evaluate", map[string]any{"expression": code, "awaitPromise": true, "returnByValue": true}, &out)
	switch {
	case err != nil:
		return err
	case out.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s %s", code, out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	case into != nil && len(out.Result.Value) > 0:
		return json.Unmarshal(out.Result.Value, into)
	}
	return nil
}

// until waits until an expression is true in the page.
func (b *tab) until(code string) {
	b.t.Helper()
	await(b.t, func() error {
		ok := false
		if err := b.eval("!!("+code+")", &ok); err != nil || ok {
			return err
		}
		var text string
		_ = b.eval("location.href + '\\n' + document.body.innerText.slice(0, 1500)", &text)
		return fmt.Errorf("never came: %s\nthe page: %s", code, text)
	})
}

// visit opens an address and waits until it is loaded.
func (b *tab) visit(address string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": address}, nil)
	b.until("document.readyState === 'complete'")
}

// enter opens the link of kloop ui, and waits for the page that it leads to.
func (b *tab) enter(link string) {
	b.t.Helper()
	b.visit(link)
	b.until("location.pathname === '/ui/' && document.readyState === 'complete'")
}

// route goes to a view of the page, in the page.
func (b *tab) route(hash string) {
	b.t.Helper()
	if err := b.eval(fmt.Sprintf("location.hash = %q", hash), nil); err != nil {
		b.t.Fatal(err)
	}
}

// press sends one key to what has the focus.
func (b *tab) press(key string) {
	b.t.Helper()
	p := map[string]any{"type": "keyDown", "key": key, "code": key}
	if len(key) == 1 {
		p["text"] = key
	} else if key == "Enter" {
		p["text"], p["windowsVirtualKeyCode"] = "\r", 13
	} else if code := map[string]int{"ArrowDown": 40, "ArrowUp": 38, "Tab": 9, "Escape": 27, "Backspace": 8}[key]; code > 0 {
		p["windowsVirtualKeyCode"] = code
	}
	b.do("Input.dispatchKeyEvent", p, nil)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key}, nil)
}

// shoot writes a picture of the page to KLOOP_SCREENS, where that names a directory.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("KLOOP_SCREENS")
	if dir == "" {
		return
	}
	var out struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png"}, &out)
	data, err := base64.StdEncoding.DecodeString(out.Data)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails if the page complained: of an exception, or of code that its policy refused.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		b.t.Errorf("the page complains: %.600s", s)
	}
}

// serve answers at a port of its own until the test ends, and returns the address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
