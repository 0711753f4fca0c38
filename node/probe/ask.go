package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/features"
)

type answer int

const (
	unknown answer = iota // it could not be asked
	passed
	failed
)

// agent is the User-Agent of probes and hooks; servers tell them from people by it.
func agent(purpose string) string { return "kube-" + purpose + "/" + (*features.Set)(nil).String() }

// tries is the number of tries of a probe that could not be run at all.
const tries = 3

// ask puts the probe's question to the container. text explains an answer that is not a plain yes.
func (p *prober) ask(ctx context.Context, pod *corev1.Pod, ip string) (a answer, text string) {
	for range tries {
		if a, text = p.askOnce(ctx, pod, ip); a != unknown || ctx.Err() != nil {
			break
		}
	}
	return a, text
}

func (p *prober) askOnce(ctx context.Context, pod *corev1.Pod, ip string) (answer, string) {
	timeout := seconds(p.probe.TimeoutSeconds, 1)
	switch h := p.probe.ProbeHandler; {
	case h.Exec != nil:
		return p.askExec(ctx, h.Exec, timeout)
	case h.HTTPGet != nil:
		return askHTTP(ctx, h.HTTPGet, p.spec, ip, timeout)
	case h.TCPSocket != nil:
		port, err := portOf(h.TCPSocket.Port, p.spec)
		if err != nil {
			return unknown, err.Error()
		}
		return askTCP(ctx, cmp.Or(h.TCPSocket.Host, ip), port, timeout)
	case h.GRPC != nil:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		return askGRPC(ctx, net.JoinHostPort(ip, strconv.Itoa(int(h.GRPC.Port))), service, timeout)
	}
	return unknown, fmt.Sprintf("missing probe handler for %s:%s", pod.Namespace+"/"+pod.Name, p.spec.Name)
}

// portOf finds the port by number, or by the name that the container gives it.
func portOf(port intstr.IntOrString, c *corev1.Container) (int, error) {
	n := port.IntValue() // of a string of digits too
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
		if n == 0 {
			return 0, fmt.Errorf("port %q not found", port.StrVal)
		}
	}
	if n <= 0 || n > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", port.String())
	}
	return n, nil
}

func (p *prober) askExec(ctx context.Context, e *corev1.ExecAction, timeout time.Duration) (answer, string) {
	const slack = 5 * time.Second // the runtime ends the command in time; this is for a runtime that doesn't answer
	ctx, cancel := context.WithTimeout(ctx, timeout+slack)
	defer cancel()
	exit, out, err := p.set.target.Exec(ctx, p.id, staticArgs(e.Command, p.spec.Env), timeout)
	switch {
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return failed, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(e.Command, " "), timeout)
	case err != nil:
		return unknown, err.Error()
	case exit != 0:
		return failed, string(out)
	}
	return passed, ""
}

// staticArgs replaces $(NAME) in a command by the variables that the spec gives a plain value.
func staticArgs(args []string, env []corev1.EnvVar) []string {
	out := make([]string, len(args))
	vars := map[string]string{}
	for _, v := range env {
		if v.ValueFrom == nil {
			vars[v.Name] = v.Value
		}
	}
	for i, a := range args {
		out[i] = expand(a, vars)
	}
	return out
}

func expand(s string, vars map[string]string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexByte(s, ')')
		switch {
		case s[1] == '$':
			b.WriteByte('$')
			s = s[2:]
			continue
		case s[1] == '(' && end > 0:
			if v, ok := vars[s[2:end]]; ok {
				b.WriteString(v)
				s = s[end+1:]
				continue
			}
		}
		b.WriteByte('$')
		s = s[1:]
	}
}

func askTCP(ctx context.Context, host string, port int, timeout time.Duration) (answer, string) {
	d := dialer(timeout)
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return failed, err.Error()
	}
	_ = conn.Close() // it stood: that is the answer
	return passed, ""
}
