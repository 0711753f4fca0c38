package stream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"
)

// The protocol of port forwarding over SPDY, and its name when a WebSocket carries the SPDY.
const (
	protocolForward = "portforward.k8s.io"
	protocolTunnel  = "SPDY/3.1+portforward.k8s.io"
)

// portForward connects the client to ports of a pod.
func (c *connection) portForward() error {
	opts, params := &corev1.PodPortForwardOptions{}, url.Values{}
	for _, p := range c.r.URL.Query()["ports"] {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		opts.Ports = append(opts.Ports, int32(n))
		params.Add("port", p)
	}
	if err := c.admitted(opts); err != nil {
		return err
	}
	pod, err := c.pod()
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	loc, rt, err := c.agent(c.r.Context(), pod.Spec.NodeName, "/portForward/"+pod.Namespace+"/"+pod.Name, params)
	if err != nil {
		return err
	}
	if !isSPDY(c.r) && !IsWebSocket(c.r) {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	if IsWebSocket(c.r) && offers(c.r, protocolTunnel) {
		return c.tunnelForward(loc, rt)
	}
	c.tunnel(loc, rt)
	return nil
}

// tunnelForward unpacks the SPDY bytes that a WebSocket carries and passes them to the agent.
func (c *connection) tunnelForward(loc *url.URL, rt http.RoundTripper) error {
	agent, err := c.spdyConn(loc, rt, protocolForward, func(resp *http.Response) error { return agentError(c, resp) })
	if err != nil {
		return err
	}
	defer agent.Close()
	ws, err := Upgrader(protocolTunnel).Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	defer ws.Close()
	done := make(chan struct{}, 2)
	go func() {
		fromSocket(agent, ws)
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(socketWriter{ws}, agent)
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
		done <- struct{}{}
	}()
	select {
	case <-done: // closing both ends the other copy
	case <-c.r.Context().Done():
	}
	return nil
}

// spdyConn is a connection to the agent after the upgrade to SPDY. What the agent says instead is an error, that refused makes.
func (c *connection) spdyConn(loc *url.URL, rt http.RoundTripper, protocol string, refused func(*http.Response) error) (net.Conn, error) {
	conn, err := proxy.DialURL(c.r.Context(), loc, rt)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("connect to the node agent: %w", err))
	}
	req, err := http.NewRequestWithContext(c.r.Context(), http.MethodPost, loc.String(), nil)
	if err != nil {
		conn.Close()
		return nil, apierrors.NewInternalError(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "SPDY/3.1")
	req.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	rd := bufio.NewReader(conn)
	resp, err := handshake(conn, rd, req)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = refused(resp)
		resp.Body.Close()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return &readerConn{Conn: conn, rd: rd}, nil
}

func handshake(conn net.Conn, rd *bufio.Reader, req *http.Request) (*http.Response, error) {
	if err := req.Write(conn); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("upgrade the connection to the node agent: %w", err))
	}
	resp, err := http.ReadResponse(rd, req)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("upgrade the connection to the node agent: %w", err))
	}
	return resp, nil
}

// readerConn reads what the handshake's reader has taken in already first.
type readerConn struct {
	net.Conn
	rd *bufio.Reader
}

func (c *readerConn) Read(b []byte) (int, error) { return c.rd.Read(b) }

// fromSocket copies binary messages.
func fromSocket(to io.Writer, ws *websocket.Conn) {
	for {
		kind, rd, err := ws.NextReader()
		if err != nil || kind != websocket.BinaryMessage {
			return
		}
		if _, err := io.Copy(to, rd); err != nil {
			return
		}
	}
}

type socketWriter struct{ ws *websocket.Conn }

func (w socketWriter) Write(b []byte) (int, error) {
	if err := w.ws.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
