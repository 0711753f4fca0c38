package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/resource"
)

type opt = grpc.CallOption

// fakeRuntime is a CRI runtime without containers: it does at once what it is asked, and tells what that was.
type fakeRuntime struct {
	cri.RuntimeServiceClient // what the tests do not need
	cri.ImageServiceClient

	mu       sync.Mutex
	name     string                           // of the runtime; "": fake
	version  string                           // of the runtime; "": 1
	asked    func()                           // what happens while the version is asked for; nil: nothing
	events   chan *cri.ContainerEventResponse // nil: it has no stream of them
	handlers []*cri.RuntimeHandler
	user     *cri.ContainerUser
	features *cri.RuntimeFeatures
	made     int
	lists    int    // how often sandboxes were asked for
	used     uint64 // bytes of memory that every container uses
	boxes    map[string]*cri.PodSandbox
	list     map[string]*cri.ContainerStatus
	of       map[string]string // container → sandbox
	configs  map[string]*cri.ContainerConfig
	updates  []*cri.UpdateContainerResourcesRequest
	stops    []*cri.StopContainerRequest
	images   map[string]*cri.Image
	pulls    []*cri.PullImageRequest
	exec     func(*cri.ExecSyncRequest) *cri.ExecSyncResponse
	amnesia  bool                                 // containers that are listed can't be found
	ahead    time.Duration                        // of its clock to ours
	frozen   bool                                 // it answers nothing about itself
	deaf     error                                // what it answers when statistics are asked for; nil: it tells them
	blind    error                                // what it answers when images are asked for; nil: it tells of them
	noCNI    bool                                 // no network plugin is configured
	noIPs    bool                                 // sandboxes get no address
	ip       string                               // of sandboxes that are made now; "": 10.1.0.9
	ips      map[string]string                    // sandbox → its address
	noNet    int                                  // so many sandboxes' networks fail
	pull     func(*cri.PullImageRequest) error    // nil: every pull is good
	stop     func(ctx context.Context, id string) // what a container's stop takes; nil: nothing
	stuck    error                                // why no container can be stopped; nil: all can
	boxReqs  map[string]*cri.RunPodSandboxRequest // sandbox → how it was asked for
	fits     func(quota int64) error              // what the kernel says to a container's quota; nil: nothing
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{boxes: map[string]*cri.PodSandbox{}, list: map[string]*cri.ContainerStatus{}, of: map[string]string{},
		configs: map[string]*cri.ContainerConfig{}, images: map[string]*cri.Image{"img": {Id: "sha256:img", RepoTags: []string{"img"},
			Uid: &cri.Int64Value{}}},
		boxReqs: map[string]*cri.RunPodSandboxRequest{}, ips: map[string]string{}}
}

func (f *fakeRuntime) next(what string) string {
	f.made++
	return fmt.Sprintf("%s%d", what, f.made)
}

// freezes waits as long as the runtime is frozen, at most until ctx ends.
func (f *fakeRuntime) freezes(ctx context.Context) error {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return grpcstatus.FromContextError(ctx.Err()).Err()
	}
	return nil
}

func (f *fakeRuntime) Version(ctx context.Context, _ *cri.VersionRequest, _ ...opt) (*cri.VersionResponse, error) {
	if err := f.freezes(ctx); err != nil {
		return nil, err
	}
	if f.asked != nil {
		f.asked()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &cri.VersionResponse{RuntimeName: cmp.Or(f.name, "fake"), RuntimeVersion: cmp.Or(f.version, "1")}, nil
}

func (f *fakeRuntime) Status(ctx context.Context, _ *cri.StatusRequest, _ ...opt) (*cri.StatusResponse, error) {
	if err := f.freezes(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	net := &cri.RuntimeCondition{Type: cri.NetworkReady, Status: !f.noCNI}
	if f.noCNI {
		net.Reason, net.Message = "NetworkPluginNotReady", "Network plugin returns error: cni plugin not initialized"
	}
	ready := &cri.RuntimeCondition{Type: cri.RuntimeReady, Status: true}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{ready, net}},
		RuntimeHandlers: f.handlers, Features: f.features}, nil
}

func (f *fakeRuntime) RunPodSandbox(_ context.Context, r *cri.RunPodSandboxRequest, _ ...opt) (*cri.RunPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := r.Config.Metadata
	for _, b := range f.boxes { // a runtime reserves the name of every sandbox that it has
		if b.Metadata.Uid == m.Uid && b.Metadata.Attempt == m.Attempt {
			return nil, grpcstatus.Errorf(codes.Unknown, "name %q is reserved for %q", m.Name, b.Id)
		}
	}
	b := &cri.PodSandbox{Id: f.next("box"), Metadata: m, Labels: r.Config.Labels, CreatedAt: time.Now().UnixNano(),
		State: cri.PodSandboxState_SANDBOX_READY}
	f.boxes[b.Id], f.boxReqs[b.Id], f.ips[b.Id] = b, r, cmp.Or(f.ip, "10.1.0.9")
	if f.noIPs {
		f.ips[b.Id] = ""
	}
	if f.noNet > 0 {
		f.noNet--
		b.State = cri.PodSandboxState_SANDBOX_NOTREADY
		return nil, grpcstatus.Error(codes.Unknown, "failed to set up the network")
	}
	return &cri.RunPodSandboxResponse{PodSandboxId: b.Id}, nil
}

func match(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, r *cri.ListPodSandboxRequest, _ ...opt) (*cri.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	res := &cri.ListPodSandboxResponse{}
	for _, b := range f.boxes {
		if match(b.Labels, r.GetFilter().GetLabelSelector()) {
			c := cri.PodSandbox{Id: b.Id, Metadata: b.Metadata, Labels: b.Labels, State: b.State, CreatedAt: b.CreatedAt}
			res.Items = append(res.Items, &c)
		}
	}
	return res, nil
}

func (f *fakeRuntime) PodSandboxStatus(_ context.Context, r *cri.PodSandboxStatusRequest, _ ...opt) (*cri.PodSandboxStatusResponse,
	error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &cri.PodSandboxStatus{Id: r.PodSandboxId, Network: &cri.PodSandboxNetworkStatus{Ip: f.ips[r.PodSandboxId]}}
	if req := f.boxReqs[r.PodSandboxId]; req != nil {
		s.Linux = &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: req.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()}}
	}
	return &cri.PodSandboxStatusResponse{Status: s}, nil
}

func (f *fakeRuntime) StopPodSandbox(_ context.Context, r *cri.StopPodSandboxRequest, _ ...opt) (*cri.StopPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.boxes[r.PodSandboxId]; b != nil {
		b.State = cri.PodSandboxState_SANDBOX_NOTREADY
	}
	for id, box := range f.of {
		if box == r.PodSandboxId {
			f.end(id, 137)
		}
	}
	return &cri.StopPodSandboxResponse{}, nil
}

func (f *fakeRuntime) RemovePodSandbox(_ context.Context, r *cri.RemovePodSandboxRequest, _ ...opt) (*cri.RemovePodSandboxResponse,
	error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.boxes, r.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

func (f *fakeRuntime) CreateContainer(_ context.Context, r *cri.CreateContainerRequest, _ ...opt) (*cri.CreateContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.next("ctr")
	f.list[id] = &cri.ContainerStatus{Id: id, Metadata: r.Config.Metadata, State: cri.ContainerState_CONTAINER_CREATED,
		CreatedAt: time.Now().UnixNano(),
		Image:     r.Config.Image, ImageRef: r.Config.Image.Image, Labels: r.Config.Labels, Annotations: r.Config.Annotations}
	f.of[id], f.configs[id] = r.PodSandboxId, r.Config
	return &cri.CreateContainerResponse{ContainerId: id}, nil
}

func (f *fakeRuntime) StartContainer(_ context.Context, r *cri.StartContainerRequest, _ ...opt) (*cri.StartContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.list[r.ContainerId]
	if f.fits != nil {
		if err := f.fits(f.configs[r.ContainerId].Linux.Resources.CpuQuota); err != nil {
			c.State, c.ExitCode, c.FinishedAt, c.Reason = cri.ContainerState_CONTAINER_EXITED, 128, time.Now().UnixNano(), "StartError"
			return nil, err
		}
	}
	c.State, c.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().Add(f.ahead).UnixNano()
	return &cri.StartContainerResponse{}, nil
}

// end ends a container that runs. f is locked.
func (f *fakeRuntime) end(id string, code int32) {
	if c := f.list[id]; c != nil && (c.State == cri.ContainerState_CONTAINER_RUNNING || c.State == cri.ContainerState_CONTAINER_UNKNOWN) {
		c.State, c.ExitCode, c.FinishedAt, c.Reason = cri.ContainerState_CONTAINER_EXITED, code, time.Now().Add(f.ahead).UnixNano(), "Error"
	}
}

// runs says that a container of the name does, which exit can end: one that is only made can't.
func (f *fakeRuntime) runs(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.list {
		if c.Metadata.Name == name && c.State == cri.ContainerState_CONTAINER_RUNNING {
			return true
		}
	}
	return false
}

// exit ends the newest container of the name.
func (f *fakeRuntime) exit(name string, code int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, c := range f.list {
		if c.Metadata.Name == name {
			f.end(id, code)
		}
	}
}

func (f *fakeRuntime) StopContainer(ctx context.Context, r *cri.StopContainerRequest, _ ...opt) (*cri.StopContainerResponse, error) {
	f.mu.Lock()
	f.stops = append(f.stops, r)
	stop, lost, stuck := f.stop, f.amnesia, f.stuck
	f.mu.Unlock()
	if stuck != nil {
		return nil, stuck
	}
	if lost {
		return nil, grpcstatus.Error(codes.NotFound, "no such container")
	}
	if stop != nil {
		stop(ctx, r.ContainerId)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() == nil {
		f.end(r.ContainerId, 143)
	}
	return &cri.StopContainerResponse{}, ctx.Err()
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, r *cri.RemoveContainerRequest, _ ...opt) (*cri.RemoveContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.amnesia {
		return nil, grpcstatus.Error(codes.NotFound, "no such container")
	}
	delete(f.list, r.ContainerId)
	delete(f.of, r.ContainerId)
	return &cri.RemoveContainerResponse{}, nil
}

func (f *fakeRuntime) ListContainers(_ context.Context, r *cri.ListContainersRequest, _ ...opt) (*cri.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &cri.ListContainersResponse{}
	for id, c := range f.list {
		if match(c.Labels, r.GetFilter().GetLabelSelector()) {
			res.Containers = append(res.Containers, &cri.Container{Id: id, PodSandboxId: f.of[id], Metadata: c.Metadata, State: c.State,
				Labels: c.Labels, ImageRef: c.ImageRef,
				Image: c.Image, CreatedAt: c.CreatedAt})
		}
	}
	slices.SortFunc(res.Containers, func(a, b *cri.Container) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return res, nil
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, r *cri.ContainerStatusRequest, _ ...opt) (*cri.ContainerStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.list[r.ContainerId]
	if c == nil {
		return nil, grpcstatus.Error(codes.NotFound, "no such container")
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{Id: c.Id, Metadata: c.Metadata, State: c.State,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt,
		FinishedAt: c.FinishedAt, ExitCode: c.ExitCode, Reason: c.Reason, Image: c.Image, ImageRef: c.ImageRef, Labels: c.Labels,
		Annotations: c.Annotations, User: f.user}}, nil
}

func (f *fakeRuntime) ExecSync(_ context.Context, r *cri.ExecSyncRequest, _ ...opt) (*cri.ExecSyncResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exec(r), nil
}

func (f *fakeRuntime) UpdateContainerResources(_ context.Context, r *cri.UpdateContainerResourcesRequest,
	_ ...opt) (*cri.UpdateContainerResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fits != nil {
		if err := f.fits(r.Linux.CpuQuota); err != nil {
			return nil, err
		}
	}
	f.updates = append(f.updates, r)
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (f *fakeRuntime) ImageStatus(_ context.Context, r *cri.ImageStatusRequest, _ ...opt) (*cri.ImageStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blind != nil {
		return nil, f.blind
	}
	for name, i := range f.images {
		if r.Image.Image == name || r.Image.Image == i.Id {
			return &cri.ImageStatusResponse{Image: i}, nil
		}
	}
	return &cri.ImageStatusResponse{}, nil
}

func (f *fakeRuntime) PullImage(_ context.Context, r *cri.PullImageRequest, _ ...opt) (*cri.PullImageResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = append(f.pulls, r)
	if f.pull != nil {
		if err := f.pull(r); err != nil {
			return nil, err
		}
	}
	i := &cri.Image{Id: "sha256:" + r.Image.Image, RepoTags: []string{r.Image.Image}, Uid: &cri.Int64Value{}}
	f.images[r.Image.Image] = i
	return &cri.PullImageResponse{ImageRef: i.Id}, nil
}

func (f *fakeRuntime) ListImages(ctx context.Context, _ *cri.ListImagesRequest, _ ...opt) (*cri.ListImagesResponse, error) {
	if err := f.freezes(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &cri.ListImagesResponse{}
	for _, i := range f.images {
		res.Images = append(res.Images, i)
	}
	return res, nil
}

// count is how many containers and sandboxes there are.
func (f *fakeRuntime) count() (containers, boxes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list), len(f.boxes)
}

// updated returns what running containers were given so far.
func (f *fakeRuntime) updated() []*cri.UpdateContainerResourcesRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.updates)
}

// newest is the configuration of the last container of the name.
func (f *fakeRuntime) newest(name string) *cri.ContainerConfig {
	f.mu.Lock()
	defer f.mu.Unlock()
	var last *cri.ContainerConfig
	for id, c := range f.configs {
		if c.Metadata.Name == name && (last == nil || f.list[id] != nil && c.Metadata.Attempt >= last.Metadata.Attempt) {
			last = c
		}
	}
	return last
}

// A rig is an agent on a fake runtime, and a server for it, in simulated time.
type rig struct {
	*client.Local
	t      *testing.T
	rt     *fakeRuntime
	agent  *Agent
	cfg    Config
	stop   func()            // the agent, and waits until it has ended
	live   bool              // time is real
	status func(*corev1.Pod) // hears of each status that is written; nil: nobody
}

// simulate runs f on an agent inside a bubble: its minutes take milliseconds.
func simulate(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { withRig(t, f) })
}

// live runs f on an agent that others reach by sockets: in real time.
func live(t *testing.T, f func(r *rig)) {
	t.Helper()
	withRig(t, func(r *rig) {
		r.stop()
		r.live, r.cfg.Plugins, r.cfg.Beat = true, true, time.Second
		r.start()
		f(r)
	})
}

func withRig(t *testing.T, f func(r *rig)) {
	api := testcluster.Start(t, func(c *testcluster.Config) { c.Admission = plugins.Default(admission.Config{}) })
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	r := &rig{Local: api.As(api.User, "kubelet"), t: t, rt: newFakeRuntime()}
	for _, ns := range []string{"d", "kube-node-lease"} {
		create(r, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	create(r, kinds.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "default"}})
	events := client.NewRecorder(r, "kubelet", nil)
	wg.Go(func() { events.Run(ctx) })
	dir := t.TempDir()
	r.cfg = Config{Name: "n", Client: r, DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Events: events,
		Runtime: &runtime.Runtime{Containers: r.rt, Images: r.rt},
		Log:     slog.New(slog.DiscardHandler),
		Dir:     filepath.Join(dir, "node"), LogDir: filepath.Join(dir, "logs"), CgroupRoot: filepath.Join(dir,
			"cgroup"), Address: netip.MustParseAddr("10.0.0.1")}
	r.start()
	f(r)
	r.stop()
	stop()
	wg.Wait()
}

// start runs an agent, as after a restart.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.agent = New(r.cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.agent.Run(ctx, loop.Env{Client: r, Log: r.cfg.Log, Events: r.cfg.Events}); err != nil && ctx.Err() == nil {
			r.t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

func create[T resource.Object](r *rig, d *resource.Def[T], obj T) T {
	r.t.Helper()
	out, err := r.Create(r.t.Context(), d, obj)
	if err != nil {
		r.t.Fatalf("create %s %s: %v", d.Plural, obj.GetName(), err)
	}
	return resource.As[T](out)
}

// pod makes a pod of the node, whose containers have the names.
func (r *rig) pod(name string, edit func(p *corev1.Pod), containers ...string) *corev1.Pod {
	r.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.PodSpec{NodeName: "n",
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(false)}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "img", ImagePullPolicy: corev1.PullIfNotPresent})
	}
	if edit != nil {
		edit(p)
	}
	return create(r, kinds.Pods, p)
}

// Update hears of the statuses of pods that are written.
func (r *rig) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	r.rt.mu.Lock()
	hears := r.status
	r.rt.mu.Unlock()
	if p, ok := obj.(*corev1.Pod); ok && sub == "status" && hears != nil {
		hears(p)
	}
	return r.Local.Update(ctx, k, obj, sub)
}

func (r *rig) get(name string) *corev1.Pod { return resource.Get(r.Read(), kinds.Pods, "d", name) }

// edit writes the pod, also while the agent does.
func (r *rig) edit(name string, change func(p *corev1.Pod)) {
	r.t.Helper()
	r.until("pod "+name+" is written", func() bool {
		p := resource.Clone(r.get(name))
		change(p)
		_, err := r.Update(r.t.Context(), kinds.Pods, p, "")
		if err != nil && !apierrors.IsConflict(err) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// until waits until ok holds: ten minutes of simulated time, or 30 s.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for range 6000 {
		pause := 5 * time.Millisecond
		if !r.live {
			synctest.Wait()
			pause = 100 * time.Millisecond
		}
		if ok() {
			return
		}
		time.Sleep(pause)
	}
	for _, p := range r.agent.pods() {
		r.t.Logf("%s: %+v", p.Name, p.Status)
	}
	r.t.Fatalf("not after ten minutes: %s", what)
}

// reaches waits for a phase, and returns the pod as it is then.
func (r *rig) reaches(name string, phase corev1.PodPhase) (p *corev1.Pod) {
	r.t.Helper()
	r.until(name+" is "+string(phase), func() bool { p = r.get(name); return p != nil && p.Status.Phase == phase })
	return p
}

// rests lets simulated time pass.
func (r *rig) rests(d time.Duration) {
	if r.live {
		return
	}
	time.Sleep(d)
	synctest.Wait()
}

// events tells the reasons of the events about a pod, sorted.
func (r *rig) events(name string) string {
	r.rests(time.Second)
	var list []string
	for _, e := range resource.List(r.Read(), kinds.Events, "d") {
		if e.InvolvedObject.Name == name {
			list = append(list, e.Reason)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
