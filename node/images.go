package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// pullsAtOnce bounds the pulls that run side by side.
const pullsAtOnce = 4

// A puller fetches images in the background, each only once at a time, and remembers why containers do not start.
type puller struct {
	*common
	images cri.ImageServiceClient
	slots  chan struct{}

	mu      sync.Mutex
	running map[pauseKey]bool // pulls under way
	fresh   map[pauseKey]bool // containers whose image was pulled for their next start
	refused map[pauseKey]refusal
}

// A refusal is why a container waits: a reason of its status, and a text.
type refusal struct{ reason, message string }

func newPuller(c *common, images cri.ImageServiceClient) *puller {
	return &puller{common: c, images: images, slots: make(chan struct{}, pullsAtOnce), running: map[pauseKey]bool{},
		fresh: map[pauseKey]bool{}, refused: map[pauseKey]refusal{}}
}

// refuse remembers why a container can't start, for its status, and puts the next attempt off: for ten seconds if its configuration
// lacks something that may come, for longer and longer otherwise.
func (p *puller) refuse(pod *corev1.Pod, name, reason string, err error) (time.Duration, error) {
	if reason == "CreateContainerConfigError" {
		p.backoff.flat(pod.UID, "start "+name, time.Now())
	} else {
		p.backoff.failed(pod.UID, "start "+name, time.Now(), 0)
	}
	p.note(pod.UID, name, reason, err.Error())
	p.event(pod, name, corev1.EventTypeWarning, "Failed", "Error: %v", err)
	left, _ := p.backoff.left(pod.UID, "start "+name, time.Now())
	return left, nil
}

func (p *puller) note(uid types.UID, name, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[pauseKey{uid, name}] = refusal{reason, message}
}

// started forgets what stood before a container's start.
func (p *puller) started(uid types.UID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, pauseKey{uid, name})
	delete(p.fresh, pauseKey{uid, name})
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

// absentImage is what pods see whose policy forbids the pull of an image that the node does not have.
type absentImage struct{ image string }

func (e *absentImage) Error() string {
	return fmt.Sprintf("Container image %q is not present with pull policy of Never", e.image)
}

// pull returns the image to run, after fetching it if the policy says so. An empty image means: not yet, look again
// after a while, or when the pull wakes the pod.
func (p *puller) pull(ctx context.Context, w world, c *corev1.Container) (image string, again time.Duration, err error) {
	pod := w.pod
	have, err := p.present(ctx, c.Image)
	if err != nil {
		_, err = p.refuse(pod, c.Name, "ImageInspectError", err)
		return "", 0, err
	}
	switch {
	case have != "" && (c.ImagePullPolicy != corev1.PullAlways || p.isFresh(pod.UID, c.Name)):
		if !p.isFresh(pod.UID, c.Name) {
			p.event(pod, c.Name, corev1.EventTypeNormal, "Pulled",
				"Container image %q already present on machine and can be accessed by the pod", c.Image)
		}
		return have, 0, nil
	case c.ImagePullPolicy == corev1.PullNever:
		again, err := p.refuse(pod, c.Name, "ErrImageNeverPull", &absentImage{c.Image})
		return "", again, err
	}
	if left, _ := p.backoff.left(pod.UID, "pull "+c.Image, w.now); left > 0 {
		r, _ := p.refusal(pod.UID, c.Name)
		text := fmt.Sprintf("Back-off pulling image %q", c.Image)
		if r.reason == "ErrImagePull" {
			text += ": ErrImagePull: " + r.message
		}
		if r.reason != "ImagePullBackOff" {
			p.note(pod.UID, c.Name, "ImagePullBackOff", text)
			p.event(pod, c.Name, corev1.EventTypeNormal, "BackOff", "%s", text)
			p.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		}
		return "", left, nil
	}
	p.fetch(pod, c)
	return "", 0, nil
}

func (p *puller) isFresh(uid types.UID, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fresh[pauseKey{uid, name}]
}

// begin claims the pull of a container's image; false means that it is under way.
func (p *puller) begin(key pauseKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[key] {
		return false
	}
	p.running[key] = true
	return true
}

func (p *puller) end(key pauseKey, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, key)
	if good {
		p.fresh[key] = true
		delete(p.refused, key)
	}
}

// fetch pulls in the background and wakes the pod when done.
func (p *puller) fetch(pod *corev1.Pod, c *corev1.Container) {
	key := pauseKey{pod.UID, c.Name}
	if !p.begin(key) {
		return
	}
	if !p.tasks.begin(func(ctx context.Context) {
		err := p.fetchInTurn(ctx, pod, c)
		p.end(key, err == nil)
		p.poke(pod.Namespace, pod.Name, "image pull ended")
	}) {
		p.end(key, false)
	}
}

// fetchInTurn waits for one of the places for pulls, and pulls.
func (p *puller) fetchInTurn(ctx context.Context, pod *corev1.Pod, c *corev1.Container) error {
	asked := time.Now()
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	began := time.Now()
	p.event(pod, c.Name, corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	err := p.fetchNow(ctx, pod, c.Image)
	if ctx.Err() != nil {
		return ctx.Err() // the agent ends; the next one pulls
	}
	if err != nil {
		p.note(pod.UID, c.Name, "ErrImagePull", err.Error())
		p.backoff.failed(pod.UID, "pull "+c.Image, time.Now(), 0)
		p.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
		p.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		return err
	}
	p.backoff.clear(pod.UID, "pull "+c.Image)
	p.event(pod, c.Name, corev1.EventTypeNormal, "Pulled",
		"Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.Image,
		time.Since(began).Round(time.Millisecond), time.Since(asked).Round(time.Millisecond), p.size(ctx, c.Image))
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
func (p *puller) fetchNow(ctx context.Context, pod *corev1.Pod, image string) (err error) {
	spec := &cri.ImageSpec{Image: image}
	for _, auth := range append(p.credentials(ctx, pod, image), nil) {
		if _, err = p.images.PullImage(ctx, &cri.PullImageRequest{Image: spec, Auth: auth}); err == nil {
			return nil
		}
	}
	return err
}

// credentials are what the pod's pull secrets hold for the image's registry, the most particular first.
func (p *puller) credentials(ctx context.Context, pod *corev1.Pod, image string) []*cri.AuthConfig {
	var ring keyring
	for _, ref := range pod.Spec.ImagePullSecrets {
		s, err := client.Find(ctx, p.cfg.Client, kinds.Secrets, pod.Namespace, ref.Name)
		if err != nil {
			p.event(pod, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", ref.Name)
			continue // a missing secret only means one chance less
		}
		ring.add(s)
	}
	return ring.lookup(image)
}
