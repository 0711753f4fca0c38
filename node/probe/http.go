package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// bodyLimit bounds what is read of an answer, in bytes.
const bodyLimit = 10 << 10

// askHTTP passes on any status from 200 to 399.
func askHTTP(ctx context.Context, g *corev1.HTTPGetAction, c *corev1.Container, ip string, timeout time.Duration) (answer, string) {
	req, err := Request(ctx, g, c, ip, "probe")
	if err != nil {
		return unknown, err.Error()
	}
	client := Client(req)
	client.Timeout = timeout
	res, err := client.Do(req)
	if err != nil {
		return failed, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, bodyLimit))
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return failed, err.Error()
	case res.StatusCode >= http.StatusOK && res.StatusCode < http.StatusMultipleChoices:
		return passed, ""
	case res.StatusCode >= http.StatusMultipleChoices && res.StatusCode < http.StatusBadRequest:
		return passed, "Probe terminated redirects, Response body: " + string(body)
	}
	return failed, fmt.Sprintf("HTTP probe failed with statuscode: %d", res.StatusCode)
}

// Request makes the question of a probe or a lifecycle hook to a container, whose address is ip unless it names another. The
// purpose, probe or lifecycle, is part of its User-Agent.
func Request(ctx context.Context, g *corev1.HTTPGetAction, c *corev1.Container, ip, purpose string) (*http.Request, error) {
	port, err := portOf(g.Port, c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(g.Path)
	if err != nil { // a path that is no URL is taken as it is
		u = &url.URL{Path: g.Path}
	}
	u.Scheme, u.Host = strings.ToLower(string(g.Scheme)), net.JoinHostPort(cmp.Or(g.Host, ip), strconv.Itoa(port))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range g.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", agent(purpose))
	}
	switch accept, set := req.Header["Accept"]; {
	case !set:
		req.Header.Set("Accept", "*/*")
	case accept[0] == "":
		req.Header.Del("Accept") // an empty one asks for none
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}

// Client puts such a request, which follows redirects on its own host alone.
func Client(req *http.Request) *http.Client {
	return &http.Client{CheckRedirect: stayOn(req.URL.Hostname()), Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the container's own: there is no name to verify
		DisableKeepAlives: true, DisableCompression: true, DialContext: dialer(0).DialContext}}
}

// stayOn follows redirects on the same host; one that leads elsewhere is the answer.
func stayOn(host string) func(*http.Request, []*http.Request) error {
	const most = 10
	return func(req *http.Request, via []*http.Request) error {
		switch {
		case req.URL.Hostname() != host:
			return http.ErrUseLastResponse
		case len(via) >= most:
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}

// dialer makes connections that leave no TIME-WAIT behind for long: there are many of them.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
		})
	}}
}
