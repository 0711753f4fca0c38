package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A target is the server that is measured.
type target struct {
	processes
	cfg    *rest.Config
	config string // file of the kubeconfig
	host   string // host:port
	tls    *tls.Config
	http2  *http.Client // nil: HTTP/1.1, see conn
	pprof  string       // host:port of the server's profiles; "": none
}

func newTarget(o *options, kubeconfig string, pids []int) (*target, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	t := &target{processes: pids, cfg: cfg, config: kubeconfig}
	u, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	if t.host = u.Host; u.Port() == "" {
		t.host += ":443"
	}
	if t.tls, err = rest.TLSConfigFor(cfg); err != nil {
		return nil, err
	}
	if t.tls == nil {
		return nil, fmt.Errorf("%s: not https", cfg.Host)
	}
	if t.tls.ServerName == "" {
		t.tls.ServerName, _, _ = net.SplitHostPort(t.host)
	}
	t.tls.NextProtos = []string{"http/1.1"}
	if o.http2 {
		t.http2, err = rest.HTTPClientFor(cfg)
	}
	return t, err
}

// A conn is one connection that carries one request at a time, with as little work on this side as can be: the
// client shares its cores with the server. It is not safe for concurrent use.
type conn struct {
	t   *target
	c   net.Conn
	r   *bufio.Reader
	out bytes.Buffer
}

func (t *target) dial(ctx context.Context) (*conn, error) {
	if t.http2 != nil {
		return &conn{t: t}, nil
	}
	d := tls.Dialer{Config: t.tls, NetDialer: &net.Dialer{Timeout: 10 * time.Second}}
	c, err := d.DialContext(ctx, "tcp", t.host)
	if err != nil {
		return nil, err
	}
	return &conn{t: t, c: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (c *conn) close() {
	if c.c != nil {
		c.c.Close()
	}
}

// leave ends a stream that goes on: closing its body would read HTTP/1.1 to the end.
func (c *conn) leave(resp *http.Response) {
	if c.c == nil {
		resp.Body.Close()
	}
	c.close()
}

// A call is one request.
type call struct {
	method, path string
	kind         string // Content-Type; "": JSON
	accept       string // "": JSON
	body         []byte
}

// open sends the call and returns the answer with its body still to be read and closed.
func (c *conn) open(ctx context.Context, q call) (*http.Response, error) {
	if q.kind == "" {
		q.kind = "application/json"
	}
	if q.accept == "" {
		q.accept = "application/json"
	}
	if c.c == nil {
		return c.t.open2(ctx, q)
	}
	c.out.Reset()
	fmt.Fprintf(&c.out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: %s\r\n", q.method, q.path, c.t.host, q.accept)
	if c.t.cfg.BearerToken != "" {
		c.out.WriteString("Authorization: Bearer " + c.t.cfg.BearerToken + "\r\n")
	}
	if q.body != nil {
		c.out.WriteString("Content-Type: " + q.kind + "\r\nContent-Length: " + strconv.Itoa(len(q.body)) + "\r\n")
	}
	c.out.WriteString("\r\n")
	c.out.Write(q.body)
	if _, err := c.c.Write(c.out.Bytes()); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, nil)
}

// open2 is open over HTTP/2, on the connection that all share.
func (t *target) open2(ctx context.Context, q call) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, "https://"+t.host+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", q.accept)
	req.Header.Set("Content-Type", q.kind)
	return t.http2.Do(req)
}

// do makes the call and returns how many bytes the answer had. Codes from 300 on are errors.
func (c *conn) do(ctx context.Context, q call) (int64, error) {
	resp, err := c.open(ctx, q)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return 0, refusal(q, resp)
	}
	return io.Copy(io.Discard, resp.Body)
}

// decode makes the call and decodes the JSON that comes back.
func (c *conn) decode(ctx context.Context, q call, into any) error {
	resp, err := c.open(ctx, q)
	if err != nil {
		return fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return refusal(q, resp)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// A codeError is an answer that is a refusal.
type codeError struct {
	code int
	text string
}

func (e *codeError) Error() string { return e.text }

func refusal(q call, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return &codeError{resp.StatusCode, fmt.Sprintf("%s %s: %s: %.300s", q.method, q.path, resp.Status, text)}
}
