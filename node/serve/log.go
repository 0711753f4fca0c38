package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/logs"
)

// logs streams a container's log.
func (a *api) logs(w http.ResponseWriter, r *http.Request) error {
	pod, err := a.pod(r)
	if err != nil {
		return refusal{http.StatusNotFound, fmt.Sprintf("pod %q does not exist", r.PathValue("pod"))}
	}
	name, q := r.PathValue("container"), r.URL.Query()
	if !hasContainer(pod, name) {
		return refusal{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", name, pod.Name)}
	}
	l, err := readWish(q, time.Now())
	if err != nil {
		return refusal{http.StatusBadRequest, err.Error()}
	}
	id, path, running, err := a.cfg.Container(pod.Namespace, pod.Name, name, on(q, "previous"))
	if err != nil {
		return refusal{http.StatusBadRequest, err.Error()}
	}
	l.alive = func(ctx context.Context) bool { return running && a.alive(ctx, id) }
	l.settled, l.ended = logs.Settled, !running
	rd, err := openLog(path)
	if err != nil {
		return refusal{http.StatusBadRequest, fmt.Sprintf("failed to try resolving symlinks in path %q: %v", path, err)}
	}
	defer rd.close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rc := http.NewResponseController(w)
	if l.follow {
		_ = rc.Flush() // the caller sees that it is connected
	}
	if err := rd.copy(r.Context(), w, func() { _ = rc.Flush() }, l); err != nil && r.Context().Err() == nil {
		a.log.Debug("stream a log", "object", "pod/"+pod.Namespace+"/"+pod.Name, "err", err)
	}
	return nil
}

// alive says whether the runtime still has the container running. Not knowing counts as running: a runtime that
// restarts ends nobody's stream.
func (a *api) alive(ctx context.Context, id string) bool {
	res, err := a.cfg.Runtime.Containers.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return !gone(err)
	}
	return res.GetStatus().GetState() == cri.ContainerState_CONTAINER_RUNNING
}

// A wish holds a caller's options for a log.
type wish struct {
	follow, stamps bool
	stream         string // "": both
	since          time.Time
	tail           int64 // lines; -1: all
	limit          int64 // bytes; -1: all
	ended          bool  // the container has
	alive          func(context.Context) bool
	settled        func(ctx context.Context, path string) // returns when an ended container's log is whole
}

func readWish(q url.Values, now time.Time) (l wish, err error) {
	l = wish{follow: on(q, "follow"), stamps: on(q, "timestamps"), tail: -1, limit: -1}
	for key, to := range map[string]*int64{"tailLines": &l.tail, "limitBytes": &l.limit} {
		if err := number(q, key, to); err != nil {
			return l, err
		}
	}
	if q.Get("tailLines") == "all" {
		l.tail = -1
	}
	if q.Get("sinceSeconds") != "" {
		var n int64
		if err := number(q, "sinceSeconds", &n); err != nil {
			return l, err
		}
		l.since = now.Add(-time.Duration(min(n, int64(time.Hour*24*365*100/time.Second))) * time.Second)
	}
	if t := q.Get("sinceTime"); t != "" {
		if l.since, err = time.Parse(time.RFC3339Nano, t); err != nil {
			return l, fmt.Errorf("sinceTime: %w", err)
		}
	}
	switch s := q.Get("stream"); s {
	case "Stdout", "stdout":
		l.stream = "stdout"
	case "Stderr", "stderr":
		l.stream = "stderr"
	case "", "All":
	default:
		return l, fmt.Errorf("stream: %q is none of All, Stdout, Stderr", s)
	}
	return l, nil
}

func number(q url.Values, key string, to *int64) error {
	v := q.Get(key)
	if v == "" || key == "tailLines" && v == "all" {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%s: %q is not a number of at least 0", key, v)
	}
	*to = n
	return nil
}
