package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// An eventStream is the fake runtime's events.
type eventStream struct {
	grpc.ClientStream
	ctx  context.Context
	from chan *cri.ContainerEventResponse
}

func (s eventStream) Recv() (*cri.ContainerEventResponse, error) {
	select {
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	case e, ok := <-s.from:
		if !ok {
			return nil, errors.New("the stream broke")
		}
		return e, nil
	}
}

func (f *fakeRuntime) GetContainerEvents(ctx context.Context, _ *cri.GetEventsRequest,
	_ ...opt) (grpc.ServerStreamingClient[cri.ContainerEventResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events == nil {
		return nil, grpcstatus.Error(codes.Unimplemented, "no events")
	}
	return eventStream{ctx: ctx, from: f.events}, nil
}

// told has the runtime tell of an end; name "": without its pod.
func told(name string) *cri.ContainerEventResponse {
	e := &cri.ContainerEventResponse{ContainerEventType: cri.ContainerEventType_CONTAINER_STOPPED_EVENT}
	if name != "" {
		e.PodSandboxStatus = &cri.PodSandboxStatus{Metadata: &cri.PodSandboxMetadata{Namespace: "d", Name: name}}
	}
	return e
}

// Ends that the runtime tells of are seen at once; what it does not tell of, or while its stream is broken, by the list.
func TestEvents(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.rt.events = make(chan *cri.ContainerEventResponse)
		r.start()
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.events <- told("other") // the stream is heard from now on
		after := func(what string, most time.Duration, tell func()) {
			t.Helper()
			state := func() corev1.ContainerStatus { return r.get("p").Status.ContainerStatuses[0] }
			r.until("it runs", func() bool { return state().State.Running != nil })
			r.rests(time.Minute)
			began, was := time.Now(), state().RestartCount
			r.rt.exit("a", 1)
			tell()
			r.until(what, func() bool { return state().State.Running == nil || state().RestartCount > was })
			if took := time.Since(began); took > most {
				t.Errorf("%s is seen after %v", what, took)
			}
		}
		const soon = 200 * time.Millisecond
		after("an end that was told of", soon, func() { r.rt.events <- told("p") })
		after("one without its pod", soon, func() { r.rt.events <- told("") })
		after("one that was not told of", relistCalm+soon, func() {})
		close(r.rt.events)
		after("one after the stream broke", relistEvery+soon, func() {})
	})
}
