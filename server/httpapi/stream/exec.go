package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/kloop-dev/kloop/kinds/core"
)

// exec connects the client to a process in a container. SPDY is tunnelled; WebSocket is translated.
func (c *connection) exec() error {
	opts := execOptions(c.r.URL.Query())
	if err := c.admittedExec(opts); err != nil {
		return err
	}
	pod, err := c.pod()
	if err != nil {
		return err
	}
	name, err := container(pod, opts.Container)
	if err != nil {
		return err
	}
	if core.Terminal(pod) {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot exec into a container in a completed pod; current phase is %s", pod.Status.Phase))
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	opts.Container = name
	loc, rt, err := c.agent(c.r.Context(), pod.Spec.NodeName, "/"+c.req.Sub+"/"+pod.Namespace+"/"+pod.Name+"/"+name, execParams(opts))
	if err != nil {
		return err
	}
	switch {
	case isSPDY(c.r):
		c.tunnel(loc, rt)
		return nil
	case !IsWebSocket(c.r):
		return apierrors.NewBadRequest("Upgrade request required")
	}
	return c.translate(loc, rt, opts)
}

func (c *connection) admittedExec(o *corev1.PodExecOptions) error {
	if c.req.Sub == "exec" {
		return c.admitted(o)
	}
	return c.admitted(&corev1.PodAttachOptions{TypeMeta: o.TypeMeta, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
		TTY: o.TTY, Container: o.Container})
}

func execOptions(q url.Values) *corev1.PodExecOptions {
	stream := func(key string, unset bool) bool {
		if _, given := q[key]; !given {
			return unset
		}
		return truth(q, key)
	}
	return &corev1.PodExecOptions{Stdin: truth(q, "stdin"), Stdout: stream("stdout", true), Stderr: stream("stderr", true),
		TTY: truth(q, "tty"), Container: q.Get("container"), Command: q["command"]}
}

// execParams are the options as the agent takes them.
func execParams(o *corev1.PodExecOptions) url.Values {
	q := url.Values{}
	for key, on := range map[string]bool{"input": o.Stdin, "output": o.Stdout, "error": o.Stderr && !o.TTY, "tty": o.TTY} {
		if on {
			q.Set(key, "1")
		}
	}
	for _, arg := range o.Command {
		q.Add("command", arg)
	}
	return q
}

// tunnel passes an upgraded connection on, byte for byte.
func (c *connection) tunnel(loc *url.URL, rt http.RoundTripper) {
	h := proxy.NewUpgradeAwareHandler(loc, rt, false, true, responder{c})
	h.UseLocationHost = true
	h.ServeHTTP(c.w, c.r)
}

// translate speaks WebSocket to the client and SPDY to the agent.
func (c *connection) translate(loc *url.URL, rt http.RoundTripper, o *corev1.PodExecOptions) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	conn, err := c.spdyConn(loc, rt, protocolV4, notUpgraded)
	if err != nil {
		return err
	}
	defer conn.Close()
	agent, err := spdy.NewClientConnectionWithPings(conn, 0)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("connect to the node agent: %w", err))
	}
	defer agent.Close()
	remote, err := openStreams(agent, o)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("open streams to the node agent: %w", err))
	}
	ws, err := Upgrader(protocolV5, protocolV4, protocolV4b64, protocolV1, protocolV1b64).Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	local := newChannels(ws, 2*c.h.cfg.WriteStall) // a minute, as upstream's
	go func() {
		defer cancel() // without a client the process gets no further
		local.read()
	}()
	go func() {
		defer cancel()
		local.ping(ctx)
	}()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.Close() // first: the streams wait for what is being written, which the agent may not take
		_ = agent.Close()
	})
	defer stop()
	pump(cancel, remote, local)
	return nil
}

// notUpgraded says why the agent did not open streams.
func notUpgraded(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 2048))
	var st metav1.Status
	switch {
	case err != nil:
		text = []byte("unable to read error from server response")
	case json.Unmarshal(text, &st) == nil && st.Kind == "Status":
		text = []byte(st.Message)
	}
	return apierrors.NewInternalError(fmt.Errorf("connect to the node agent: unable to upgrade connection: %s", bytes.TrimSpace(text)))
}

// openStreams creates the streams of the exec protocol, in the order that the agent expects. Unused ones are nil.
func openStreams(conn httpstream.Connection, o *corev1.PodExecOptions) (list [5]httpstream.Stream, err error) {
	order := []struct {
		at   int
		typ  string
		want bool
	}{{chanError, corev1.StreamTypeError, true}, {chanStdin, corev1.StreamTypeStdin, o.Stdin},
		{chanStdout, corev1.StreamTypeStdout, o.Stdout}, {chanStderr, corev1.StreamTypeStderr, o.Stderr && !o.TTY},
		{chanResize, corev1.StreamTypeResize, o.TTY}}
	for _, s := range order {
		if !s.want {
			continue
		}
		h := http.Header{}
		h.Set(corev1.StreamType, s.typ)
		if list[s.at], err = conn.CreateStream(h); err != nil {
			return list, err
		}
	}
	return list, nil
}

// pump copies until the agent has told how the process ended, or the client is gone, or takes nothing: then it calls cut.
func pump(cut func(), remote [5]httpstream.Stream, local *channels) {
	defer local.finish()
	for _, at := range []int{chanStdin, chanResize} {
		if remote[at] == nil {
			local.stop(at)
			continue
		}
		go func() {
			_, _ = io.Copy(remote[at], local.in[at].r)
			_ = remote[at].Close() // the process sees the end of its input
			local.stop(at)
		}()
	}
	var out sync.WaitGroup
	for _, at := range []int{chanStdout, chanStderr} {
		if remote[at] != nil {
			out.Go(func() {
				if _, err := io.Copy(to{local, at}, remote[at]); err != nil {
					cut()
				}
			})
		}
	}
	verdict, _ := io.ReadAll(io.LimitReader(remote[chanError], 1<<20))
	out.Wait()
	if len(verdict) == 0 {
		verdict = []byte(`{"metadata":{},"status":"Success"}`)
	}
	if local.first {
		if verdict = plain(verdict); len(verdict) == 0 {
			return
		}
	}
	_ = local.write(chanError, verdict)
}

// plain is the verdict as the first protocol has it: the text of a failure, and nothing of a success.
func plain(verdict []byte) []byte {
	var st metav1.Status
	switch err := json.Unmarshal(verdict, &st); {
	case err != nil:
		return verdict // an agent that speaks plainly itself
	case st.Status == metav1.StatusSuccess:
		return nil
	}
	return []byte(st.Message)
}

// offers says that the client's WebSocket handshake names the protocol.
func offers(r *http.Request, protocol string) bool {
	for _, h := range r.Header.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(h, ",") {
			if strings.TrimSpace(p) == protocol {
				return true
			}
		}
	}
	return false
}
