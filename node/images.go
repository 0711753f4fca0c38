package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/provider"
	"github.com/kloop-dev/kloop/node/pullrecord"
)

// pullsAtOnce bounds the pulls that run side by side.
const pullsAtOnce = 4

// A puller fetches images in the background, each only once at a time, and remembers why containers do not start.
type puller struct {
	*common
	images cri.ImageServiceClient
	slots  chan struct{}
	token  func(ctx context.Context, pod *corev1.Pod, audience string) (string, error) // of the pod's service account, for plugins

	mu      sync.Mutex
	running map[pauseKey]bool // pulls under way; false: of a pod that has been forgotten meanwhile
	fresh   map[pauseKey]bool // containers whose image was pulled for their next start
	refused map[pauseKey]refusal
}

// A refusal is why a container waits: a reason of its status, and a text.
type refusal struct {
	reason, message string
	told            bool // of a pull that failed: the status tells of it, and next that the container waits
}

func newPuller(c *common, images cri.ImageServiceClient) *puller {
	return &puller{common: c, images: images, slots: make(chan struct{}, cmp.Or(c.cfg.ParallelPulls, pullsAtOnce)),
		running: map[pauseKey]bool{}, fresh: map[pauseKey]bool{}, refused: map[pauseKey]refusal{}}
}

// refuse remembers why a container can't start, for its status, and puts the next attempt off for ten seconds, since what it lacks may
// come.
func (p *puller) refuse(pod *corev1.Pod, name, reason string, err error) (time.Duration, error) {
	p.backoff.flat(pod.UID, "start "+name, time.Now())
	return p.because(pod, name, "start "+name, reason, err)
}

// failed remembers that the runtime could not start a container. Where it shows that as an end of the container, the next start waits as
// after a crash; where it doesn't, for longer and longer too.
func (p *puller) failed(pod *corev1.Pod, name string, err error) (time.Duration, error) {
	p.backoff.failed(pod.UID, "run "+name, time.Now(), 0)
	_, err = p.because(pod, name, "run "+name, "RunContainerError", err)
	return loop.Now, err
}

// because tells in an event and in the container's status why it does not start. again: the rest of the pause.
func (p *puller) because(pod *corev1.Pod, name, pause, reason string, err error) (again time.Duration, _ error) {
	text := status.Convert(err).Message() // what the runtime says, without the words of its protocol
	p.note(pod.UID, name, reason, text)
	p.event(pod, name, corev1.EventTypeWarning, "Failed", "Error: %s", text)
	left, _ := p.backoff.left(pod.UID, pause, time.Now())
	return left, nil
}

func (p *puller) note(uid types.UID, name, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[pauseKey{uid, name}] = refusal{reason: reason, message: message}
}

// tell says, once for each pull that failed, that the status has yet to tell how.
func (p *puller) tell(uid types.UID, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pauseKey{uid, name}
	r := p.refused[key]
	if r.reason != "ErrImagePull" || r.told {
		return false
	}
	r.told = true
	p.refused[key] = r
	return true
}

// started forgets what stood before a container's start.
func (p *puller) started(uid types.UID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, pauseKey{uid, name})
	maps.DeleteFunc(p.fresh, func(key pauseKey, _ bool) bool {
		return key.pod == uid && (key.what == name || strings.HasPrefix(key.what, name+"/"))
	})
}

func (p *puller) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.refused {
		if key.pod == uid {
			delete(p.refused, key)
		}
	}
	for key := range p.fresh {
		if key.pod == uid {
			delete(p.fresh, key)
		}
	}
	for key := range p.running {
		if key.pod == uid {
			p.running[key] = false
		}
	}
}

func (p *puller) refusal(uid types.UID, name string) (refusal, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.refused[pauseKey{uid, name}]
	return r, ok
}

// present returns the reference of an image that the node has, or "".
func (p *puller) present(ctx context.Context, image string) (string, error) {
	res, err := p.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
	if err != nil {
		return "", fmt.Errorf("look for image %s: %w", image, err)
	}
	return res.GetImage().GetId(), nil
}

// unusable tells why an image can't even be asked for: in an event of its own, whose reason it is, and in the container's status.
func (p *puller) unusable(pod *corev1.Pod, want wanted, reason, event, format string, args ...any) (image string, again time.Duration,
	err error) {
	name := want.container
	p.event(pod, want.subject(), corev1.EventTypeWarning, event, format, args...)
	again, err = p.refuse(pod, name, reason, errors.New(reason))
	p.note(pod.UID, name, reason, fmt.Sprintf(format, args...))
	return "", again, err
}

// A wanted image is one that a container runs, or that it mounts as a volume.
type wanted struct {
	container string
	volume    string // "": the container runs it
	image     string
	policy    corev1.PullPolicy
}

// what tells a container's images apart: the one that it runs by the container's name alone.
func (want wanted) what() string {
	if want.volume == "" {
		return want.container
	}
	return want.container + "/" + want.volume
}

// subject is the container that events of the image concern; "": the pod, which has the volume.
func (want wanted) subject() string {
	if want.volume == "" {
		return want.container
	}
	return ""
}

// pull returns the image to run or mount, after fetching it if the policy says so. An empty image means: not yet, look again
// after a while, or when the pull wakes the pod.
func (p *puller) pull(ctx context.Context, w world, want wanted) (image string, again time.Duration, err error) {
	pod := w.pod
	if _, err := reference.ParseNormalizedNamed(want.image); err != nil {
		return p.unusable(pod, want, "InvalidImageName", "InspectFailed",
			"Failed to apply default image tag %q: couldn't parse image name %[1]q: %v", want.image, err)
	}
	have, err := p.present(ctx, want.image)
	if err != nil {
		return p.unusable(pod, want, "ImageInspectError", "InspectFailed", "Failed to inspect image %q: %v", want.image, err)
	}
	fresh := p.isFresh(pod.UID, want.what())
	usable := have != "" && fresh
	if have != "" && !fresh && want.policy != corev1.PullAlways {
		if usable, err = p.pulled.May(want.image, have, func() []pullrecord.Secret { return p.secrets(ctx, pod, want.image) }); err != nil {
			p.log.Warn("look whether a pod may have an image that is there; it is pulled", "image", want.image, "err", err)
		}
	}
	switch {
	case usable:
		if !fresh {
			p.event(pod, want.subject(), corev1.EventTypeNormal, "Pulled",
				"Container image %q already present on machine and can be accessed by the pod", want.image)
		}
		return have, 0, nil
	case want.policy == corev1.PullNever:
		return p.unusable(pod, want, "ErrImageNeverPull", "ErrImageNeverPull",
			"Container image %q is not present with pull policy of Never", want.image)
	}
	if left, _ := p.backoff.left(pod.UID, "pull "+want.image, w.now); left > 0 {
		if p.tell(pod.UID, want.container) {
			return "", loop.Now, nil
		}
		r, _ := p.refusal(pod.UID, want.container)
		text := fmt.Sprintf("Back-off pulling image %q", want.image)
		if r.reason == "ErrImagePull" {
			text += ": ErrImagePull: " + r.message
		}
		if r.reason != "ImagePullBackOff" {
			p.note(pod.UID, want.container, "ImagePullBackOff", text)
			p.event(pod, want.subject(), corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", want.image)
			p.event(pod, want.container, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		}
		return "", left, nil
	}
	p.fetch(pod, want)
	return "", 0, nil
}

func (p *puller) isFresh(uid types.UID, what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fresh[pauseKey{uid, what}]
}

// begin claims the pull of an image; false means that it is under way.
func (p *puller) begin(key pauseKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, under := p.running[key]; under {
		return false
	}
	p.running[key] = true
	return true
}

// end notes what came of a pull. Of a pod that has gone meanwhile nothing is kept: nobody would forget it again.
func (p *puller) end(key pauseKey, container string, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.running[key]
	delete(p.running, key)
	switch {
	case !known:
		delete(p.refused, pauseKey{key.pod, container})
		p.backoff.forget(key.pod)
	case good:
		p.fresh[key] = true
		delete(p.refused, pauseKey{key.pod, container})
	}
}

// fetch pulls in the background and wakes the pod when done.
func (p *puller) fetch(pod *corev1.Pod, want wanted) {
	key := pauseKey{pod.UID, want.what()}
	if !p.begin(key) {
		return
	}
	if !p.tasks.begin(func(ctx context.Context) {
		err := p.fetchInTurn(ctx, pod, want)
		p.end(key, want.container, err == nil)
		p.wake(pod.Namespace, pod.Name, "image pull ended")
	}) {
		p.end(key, want.container, false)
	}
}

// fetchInTurn waits for one of the places for pulls, and pulls.
func (p *puller) fetchInTurn(ctx context.Context, pod *corev1.Pod, want wanted) error {
	asked, image, container := time.Now(), want.image, want.container
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	began := time.Now()
	p.event(pod, want.subject(), corev1.EventTypeNormal, "Pulling", "Pulling image %q", image)
	missing, err := p.fetchNow(ctx, pod, image)
	if ctx.Err() != nil {
		return ctx.Err() // the agent ends; the next one pulls
	}
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown {
		err = errors.New(s.Message()) // that the runtime gave it no code is nothing to tell
	}
	if err != nil {
		p.note(pod.UID, container, "ErrImagePull", err.Error())
		p.backoff.failed(pod.UID, "pull "+image, time.Now(), 0)
		p.event(pod, want.subject(), corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", image, err)
		p.event(pod, container, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		if len(missing) > 0 {
			p.event(pod, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", "))
		}
		return err
	}
	p.backoff.clear(pod.UID, "pull "+image)
	took, size := time.Since(began), p.size(ctx, image)
	p.meter.Pulled(size, took)
	p.event(pod, want.subject(), corev1.EventTypeNormal, "Pulled",
		"Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", image,
		took.Round(time.Millisecond), time.Since(asked).Round(time.Millisecond), size)
	return nil
}

// size is the image's, in bytes; 0 when the runtime can't tell.
func (p *puller) size(ctx context.Context, image string) uint64 {
	res, err := p.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
	if err != nil {
		return 0
	}
	return res.GetImage().GetSize()
}

// fetchNow pulls with each of the pod's credentials for the registry, at last without any. There is no limit of time: runtimes end a
// pull that makes no progress.
func (p *puller) fetchNow(ctx context.Context, pod *corev1.Pod, image string) (missing []string, err error) {
	if err := p.pulled.Begin(image); err != nil {
		return nil, err
	}
	spec := &cri.ImageSpec{Image: image}
	known, missing := p.credentials(ctx, pod, image)
	for _, c := range append(known, credential{}) {
		var res *cri.PullImageResponse
		if res, err = p.images.PullImage(ctx, &cri.PullImageRequest{Image: spec, Auth: c.auth}); err == nil {
			id, _ := p.present(ctx, image) // the answer names it too, for most runtimes alike
			return missing, p.pulled.Done(image, cmp.Or(id, res.GetImageRef()), c.from)
		}
	}
	lost := givenUp(err) || status.Code(err) == codes.Unavailable // else what lies there was brought by somebody else
	if id, perr := p.present(ctx, image); !lost || perr == nil && id == "" {
		p.pulled.Failed(image)
	}
	return missing, err
}

// credentials returns the entries of the pod's pull secrets for the image's registry, the most particular first, and the names of the
// secrets that can't be read.
func (p *puller) credentials(ctx context.Context, pod *corev1.Pod, image string) (list []credential, missing []string) {
	var ring keyring
	for _, ref := range pod.Spec.ImagePullSecrets {
		s, err := client.Find(ctx, p.cfg.Client, kinds.Secrets, pod.Namespace, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue // a missing secret only means one chance less
		}
		ring.add(s)
	}
	return slices.Concat(ring.lookup(image), p.nodeRing().lookup(image), p.provided(ctx, pod, image)), missing
}

// provided are the credentials that plugins know for the image.
func (p *puller) provided(ctx context.Context, pod *corev1.Pod, image string) (list []credential) {
	named, err := reference.ParseNormalizedNamed(image)
	if p.cfg.Providers == nil || err != nil {
		return nil
	}
	grants, err := p.cfg.Providers.Ask(ctx, named.Name(), p.caller(ctx, pod))
	if err != nil {
		p.log.Warn("ask for credentials of a registry", "object", "pod/"+pod.Namespace+"/"+pod.Name, "image", image, "err", err)
	}
	for _, g := range grants {
		ring := &keyring{}
		for server, l := range g.Logins {
			k := keyOf(server)
			k.user, k.password = l.User, l.Password
			if a := g.Account; a != nil { // what was pulled by it is for pods of the same account, whatever the password was
				k.from = &pullrecord.Secret{UID: string(a.UID), Namespace: a.Namespace, Name: a.Name,
					Hash: pullrecord.Hash("service account", string(a.UID))}
			}
			ring.keys = append(ring.keys, k)
		}
		ring.sort()
		list = append(list, ring.lookup(image)...)
	}
	return list
}

// caller tells plugins of the pod's service account.
func (p *puller) caller(ctx context.Context, pod *corev1.Pod) (c provider.Caller) {
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return c
	}
	c.Account = func() (*corev1.ServiceAccount, error) {
		return client.Find(ctx, p.cfg.Client, kinds.ServiceAccounts, pod.Namespace, name)
	}
	c.Token = func(audience string) (string, error) { return p.token(ctx, pod, audience) }
	return c
}

// nodeRing holds the credentials of the node's, for all pods: those of its settings, and those of the file config.json in its root
// directory, where the kubelet has them.
func (p *puller) nodeRing() *keyring {
	r := &keyring{}
	for _, c := range p.cfg.Credentials {
		r.addAll(map[string]entry{c.Server: {c.User, c.Password, c.Both}}, nil)
	}
	if text, err := os.ReadFile(filepath.Join(p.cfg.Dir, "config.json")); err == nil {
		r.addFile(text, nil)
	}
	return r
}

// secrets are those of the pod that are for the image's registry.
func (p *puller) secrets(ctx context.Context, pod *corev1.Pod, image string) (list []pullrecord.Secret) {
	known, _ := p.credentials(ctx, pod, image)
	for _, c := range known {
		if c.from != nil {
			list = append(list, *c.from)
		}
	}
	return list
}
