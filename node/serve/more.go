package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A ProbeCount is the number of times that a probe of a container ended so.
type ProbeCount struct {
	Namespace, Pod, UID, Container string
	Kind                           string // Liveness, Readiness, Startup
	Result                         string // successful, failed, unknown
	Count                          uint64
}

// probeMetrics answers with the counts of probes, as the kubelet's /metrics/probes.
func (a *api) probeMetrics(w http.ResponseWriter, _ *http.Request) error {
	m := &family{name: "prober_probe_total"}
	fmt.Fprint(m, "# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.\n"+
		"# TYPE prober_probe_total counter\n")
	if a.cfg.Probes != nil {
		list := a.cfg.Probes()
		coldsort.Func(list, func(x, y ProbeCount) int {
			return cmp.Or(cmp.Compare(x.UID, y.UID), cmp.Compare(x.Container, y.Container), cmp.Compare(x.Kind, y.Kind),
				cmp.Compare(x.Result, y.Result))
		})
		for _, c := range list {
			m.sample(fmt.Sprintf("{container=%q,namespace=%q,pod=%q,pod_uid=%q,probe_type=%q,result=%q}", c.Container, c.Namespace, c.Pod, c.UID,
				c.Kind, c.Result), float64(c.Count), metav1.Time{})
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.Bytes()) // the caller may have gone
	return nil
}

// configz answers with the node's configuration in the kubelet's words.
func (a *api) configz(w http.ResponseWriter, _ *http.Request) error {
	if a.cfg.Configuration == nil {
		return refusal{http.StatusNotFound, "this agent does not tell its configuration"}
	}
	return writeJSON(w, map[string]any{"kubeletconfig": a.cfg.Configuration()})
}

// runningPods lists the pods that the runtime has, whether the cluster knows them or not: by name, with their containers.
func (a *api) runningPods(w http.ResponseWriter, r *http.Request) error {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	running := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}
	res, err := a.cfg.Runtime.Containers.ListContainers(r.Context(), &cri.ListContainersRequest{Filter: running})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	at := map[string]int{}
	for _, c := range res.Containers {
		uid := c.Labels["io.kubernetes.pod.uid"]
		i, known := at[uid]
		if !known {
			i = len(list.Items)
			at[uid] = i
			list.Items = append(list.Items, corev1.Pod{})
			p := &list.Items[i]
			p.Name, p.Namespace, p.UID = c.Labels["io.kubernetes.pod.name"], c.Labels["io.kubernetes.pod.namespace"], types.UID(uid)
		}
		p := &list.Items[i]
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c.GetMetadata().GetName(), Image: c.GetImage().GetImage()})
	}
	return writeJSON(w, list)
}

// The time that a checkpoint may take, unless told otherwise.
const checkpointPatience = 2 * time.Minute

// checkpoint has the runtime write the state of a running container into an archive on the node, and tells its name (KEP-2008).
func (a *api) checkpoint(w http.ResponseWriter, r *http.Request) error {
	pod, err := a.pod(r)
	if err != nil {
		return err
	}
	name := r.PathValue("container")
	if !hasContainer(pod, name) {
		return refusal{http.StatusNotFound, fmt.Sprintf("container %v does not exist", name)}
	}
	patience := checkpointPatience
	if text := r.URL.Query().Get("timeout"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return refusal{http.StatusBadRequest, fmt.Sprintf("timeout %q is no number of seconds", text)}
		}
		if n > 0 {
			patience = time.Duration(n) * time.Second
		}
	}
	id, _, running, err := a.cfg.Container(pod.Namespace, pod.Name, name, false)
	if err != nil || !running {
		return refusal{http.StatusNotFound, fmt.Sprintf("container %v does not run", name)}
	}
	if a.cfg.Checkpoints == "" {
		return refusal{http.StatusNotImplemented, "this agent has no directory for checkpoints"}
	}
	if err := os.MkdirAll(a.cfg.Checkpoints, 0o700); err != nil {
		return fmt.Errorf("make the directory of checkpoints: %w", err)
	}
	full := fmt.Sprintf("%s_%s-%s", pod.Name, pod.Namespace, name)
	file := filepath.Join(a.cfg.Checkpoints, "checkpoint-"+full+"-"+time.Now().UTC().Format(time.RFC3339)+".tar")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	_, err = a.cfg.Runtime.Containers.CheckpointContainer(ctx, &cri.CheckpointContainerRequest{ContainerId: id, Location: file,
		Timeout: int64(patience / time.Second)})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return refusal{http.StatusNotImplemented, "the container runtime makes no checkpoints: that takes containerd 2.0 and criu on the node"}
	case err != nil:
		return errors.Join(fmt.Errorf("checkpointing of %s/%s/%s failed (%w)", pod.Namespace, pod.Name, name, err), ignoreAbsent(os.Remove(file)))
	}
	return writeJSON(w, map[string][]string{"items": {file}})
}

func ignoreAbsent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
