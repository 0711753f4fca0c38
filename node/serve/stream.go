package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// running finds the container that the URL names and that must run. absent is the kubelet's text for one that doesn't.
func (a *api) running(r *http.Request, absent func(pod *corev1.Pod, container string) string) (id string, err error) {
	pod, err := a.pod(r)
	if err != nil {
		return "", err
	}
	name := r.PathValue("container")
	id, _, running, err := a.cfg.Container(pod.Namespace, pod.Name, name, false)
	if none := NoLog(""); errors.As(err, &none) {
		running, err = false, nil
	}
	if err == nil && (id == "" || !running) {
		err = errors.New(absent(pod, name))
	}
	return id, err
}

func notFound(_ *corev1.Pod, container string) string {
	return fmt.Sprintf("container not found (%q)", container)
}

func notInPod(pod *corev1.Pod, container string) string {
	return fmt.Sprintf("container %s not found in pod %s_%s", container, pod.Name, pod.Namespace)
}

// The parameters of exec and attach, which are the kubelet's: input, output, error, tty, command.
func on(q url.Values, key string) bool { return q.Get(key) == "1" || q.Get(key) == "true" }

func (a *api) exec(w http.ResponseWriter, r *http.Request) error {
	id, err := a.running(r, notFound)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if err := checkStreams(q); err != nil {
		return err
	}
	res, err := a.cfg.Runtime.Containers.Exec(r.Context(), &cri.ExecRequest{ContainerId: id, Cmd: q["command"],
		Stdin: on(q, "input"), Stdout: on(q, "output"), Stderr: on(q, "error"), Tty: on(q, "tty")})
	if err != nil {
		return fmt.Errorf("exec in container %s: %w", id, err)
	}
	return tunnel(w, r, res.Url)
}

func (a *api) attach(w http.ResponseWriter, r *http.Request) error {
	id, err := a.running(r, notInPod)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if err := checkStreams(q); err != nil {
		return err
	}
	res, err := a.cfg.Runtime.Containers.Attach(r.Context(), &cri.AttachRequest{ContainerId: id,
		Stdin: on(q, "input"), Stdout: on(q, "output"), Stderr: on(q, "error"), Tty: on(q, "tty")})
	if err != nil {
		return fmt.Errorf("attach to container %s: %w", id, err)
	}
	return tunnel(w, r, res.Url)
}

func checkStreams(q url.Values) error {
	switch {
	case !on(q, "input") && !on(q, "output") && !on(q, "error"):
		return refusal{http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr"}
	case on(q, "tty") && on(q, "error"):
		return refusal{http.StatusBadRequest, "tty and stderr cannot both be true"}
	}
	return nil
}

func (a *api) portForward(w http.ResponseWriter, r *http.Request) error {
	pod, err := a.pod(r)
	if err != nil {
		return err
	}
	var ports []int32
	for _, p := range r.URL.Query()["port"] {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return refusal{http.StatusBadRequest, fmt.Sprintf("invalid port %q", p)}
		}
		ports = append(ports, int32(n))
	}
	box, err := a.sandbox(r.Context(), string(pod.UID))
	if err != nil {
		return err
	}
	res, err := a.cfg.Runtime.Containers.PortForward(r.Context(), &cri.PortForwardRequest{PodSandboxId: box, Port: ports})
	if err != nil {
		return fmt.Errorf("forward ports of sandbox %s: %w", box, err)
	}
	return tunnel(w, r, res.Url)
}

// sandbox finds the pod's sandbox that is up.
func (a *api) sandbox(ctx context.Context, uid string) (id string, err error) {
	res, err := a.cfg.Runtime.Containers.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		State:         &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid}}})
	if err != nil {
		return "", fmt.Errorf("find the pod's sandbox: %w", err)
	}
	if len(res.Items) == 0 {
		return "", refusal{http.StatusNotFound, "the pod has no sandbox that is up"}
	}
	return res.Items[0].Id, nil
}

// tunnel passes the connection on to the runtime's streaming server.
func tunnel(w http.ResponseWriter, r *http.Request, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("read the runtime's address for streams: %w", err)
	}
	h := proxy.NewUpgradeAwareHandler(u, nil, false, true, responder{})
	h.ServeHTTP(w, r)
	return nil
}

// responder answers what goes wrong before the streams stand.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	fail(w, errors.New(err.Error())) // the runtime's own code is not the caller's
}

// run runs a command to its end and answers with what it wrote. The command is cut at its spaces, and may come as a form (curl -d), as the
// kubelet has it.
func (a *api) run(w http.ResponseWriter, r *http.Request) error {
	id, err := a.running(r, notFound)
	if err != nil {
		return err
	}
	cmd := r.FormValue("cmd")
	if cmd == "" {
		return refusal{http.StatusBadRequest, "say which command to run: cmd"}
	}
	res, err := a.cfg.Runtime.Containers.ExecSync(r.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: strings.Split(cmd, " ")})
	if err != nil {
		return fmt.Errorf("run a command in container %s: %w", id, err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if res.ExitCode != 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(append(res.Stdout, res.Stderr...)) // the caller may have gone
	return nil
}
