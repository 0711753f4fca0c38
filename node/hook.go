package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hookOutput bounds what is kept of a hook's answer.
const hookOutput = 4096

// hook runs a lifecycle handler.
func (sp *stopper) hook(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, h *corev1.LifecycleHandler, id string,
	box *sandbox) error {
	switch {
	case h.Exec != nil:
		code, out, err := sp.Exec(ctx, id, h.Exec.Command, 0)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command %q exited with %d: %s", h.Exec.Command, code, out)
		}
		return nil
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
			return nil
		}
	case h.HTTPGet != nil:
		return sp.hookHTTP(ctx, pod, spec, h.HTTPGet, box)
	}
	return errors.New("the hook says nothing to do")
}

func (sp *stopper) hookHTTP(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, g *corev1.HTTPGetAction, box *sandbox) error {
	host := g.Host
	if host == "" {
		host = pod.Status.PodIP
		if box != nil && len(box.ips) > 0 {
			host = box.ips[0]
		}
		if pod.Spec.HostNetwork {
			host = sp.cfg.Address.String()
		}
	}
	port := g.Port.IntValue()
	if g.Port.Type == intstr.String {
		for _, p := range spec.Ports {
			if p.Name == g.Port.StrVal {
				port = int(p.ContainerPort)
			}
		}
	}
	scheme := strings.ToLower(string(g.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host,
		strconv.Itoa(port))+"/"+strings.TrimPrefix(g.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, kv := range g.HTTPHeaders {
		req.Header.Add(kv.Name, kv.Value)
	}
	res, err := hookClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.CopyN(io.Discard, res.Body, hookOutput)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the hook's server answered %s", res.Status)
	}
	return nil
}

// Exec runs a command in a container and returns its exit code and output. A timeout of 0 leaves it to ctx.
func (sp *stopper) Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exit int, out []byte, err error) {
	res, err := sp.cfg.Runtime.Containers.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: cmd,
		Timeout: int64((timeout + time.Second - 1) / time.Second)})
	if err != nil {
		return 0, nil, err
	}
	both := bytes.TrimSpace(append(res.Stdout, res.Stderr...))
	return int(res.ExitCode), both[:min(len(both), hookOutput)], nil
}

// hookClient calls the servers of lifecycle hooks, which are the pod's own: their certificates say nothing.
var hookClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
