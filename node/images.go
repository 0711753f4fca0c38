package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// pullLimit bounds one pull; pullsAtOnce how many run side by side.
const (
	pullLimit   = 15 * time.Minute
	pullsAtOnce = 4
)

// A puller fetches images in the background, each only once at a time, and remembers why containers do not start.
type puller struct {
	images cri.ImageServiceClient
	slots  chan struct{}

	mu      sync.Mutex
	running map[pauseKey]bool // pulls under way
	fresh   map[pauseKey]bool // containers whose image was pulled for their next start
	refused map[pauseKey]refusal
}

// A refusal is why a container waits: a reason of its status, and a text.
type refusal struct{ reason, message string }

func newPuller(images cri.ImageServiceClient) *puller {
	return &puller{images: images, slots: make(chan struct{}, pullsAtOnce), running: map[pauseKey]bool{},
		fresh: map[pauseKey]bool{}, refused: map[pauseKey]refusal{}}
}

func (p *puller) refuse(uid types.UID, name, reason, message string) {
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
func (a *Agent) pull(ctx context.Context, w world, c *corev1.Container) (image string, again time.Duration, err error) {
	pod := w.pod
	have, err := a.images.present(ctx, c.Image)
	if err != nil {
		_, err = a.refuse(pod, c.Name, "ImageInspectError", err)
		return "", 0, err
	}
	switch {
	case have != "" && (c.ImagePullPolicy != corev1.PullAlways || a.images.isFresh(pod.UID, c.Name)):
		return have, 0, nil
	case c.ImagePullPolicy == corev1.PullNever:
		again, err := a.refuse(pod, c.Name, "ErrImageNeverPull", &absentImage{c.Image})
		return "", again, err
	}
	if left, _ := a.backoff.left(pod.UID, "pull "+c.Image, w.now); left > 0 {
		r, _ := a.images.refusal(pod.UID, c.Name)
		text := fmt.Sprintf("Back-off pulling image %q", c.Image)
		if r.reason == "ErrImagePull" {
			text += ": ErrImagePull: " + r.message
		}
		if r.reason != "ImagePullBackOff" {
			a.images.refuse(pod.UID, c.Name, "ImagePullBackOff", text)
			a.event(pod, c.Name, corev1.EventTypeNormal, "BackOff", "%s", text)
			a.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		}
		return "", left, nil
	}
	a.fetch(pod, c)
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
func (a *Agent) fetch(pod *corev1.Pod, c *corev1.Container) {
	key := pauseKey{pod.UID, c.Name}
	if !a.images.begin(key) {
		return
	}
	go func() {
		a.images.slots <- struct{}{}
		defer func() { <-a.images.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), pullLimit)
		defer cancel()
		began := time.Now()
		a.event(pod, c.Name, corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
		err := a.fetchNow(ctx, pod, c.Image)
		if err == nil {
			a.backoff.clear(pod.UID, "pull "+c.Image)
			a.event(pod, c.Name, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v", c.Image, time.Since(began).Round(time.Millisecond))
		} else {
			a.images.refuse(pod.UID, c.Name, "ErrImagePull", err.Error())
			a.backoff.failed(pod.UID, "pull "+c.Image, time.Now(), 0)
			a.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
			a.event(pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		}
		a.images.end(key, err == nil)
		a.poke(pod.Namespace, pod.Name, "image pull ended")
	}()
}

// fetchNow pulls with each of the pod's credentials for the registry, at last without any.
func (a *Agent) fetchNow(ctx context.Context, pod *corev1.Pod, image string) (err error) {
	spec := &cri.ImageSpec{Image: image}
	for _, auth := range append(a.credentials(ctx, pod, image), nil) {
		if _, err = a.images.images.PullImage(ctx, &cri.PullImageRequest{Image: spec, Auth: auth}); err == nil {
			return nil
		}
	}
	return err
}

// credentials are what the pod's pull secrets hold for the image's registry.
func (a *Agent) credentials(ctx context.Context, pod *corev1.Pod, image string) (list []*cri.AuthConfig) {
	for _, ref := range pod.Spec.ImagePullSecrets {
		obj, err := a.cfg.Client.Get(ctx, kinds.Secrets, pod.Namespace, ref.Name)
		if err != nil {
			continue // as upstream: a missing secret only means one chance less
		}
		list = append(list, parseCredentials(obj.(*corev1.Secret), image)...)
	}
	return list
}

func parseCredentials(s *corev1.Secret, image string) (list []*cri.AuthConfig) {
	var conf struct {
		Auths map[string]struct{ Username, Password, Auth string } `json:"auths"`
	}
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &conf) != nil {
			return nil
		}
	case corev1.SecretTypeDockercfg:
		if json.Unmarshal(s.Data[corev1.DockerConfigKey], &conf.Auths) != nil {
			return nil
		}
	}
	for server, c := range conf.Auths {
		host := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://"), "/")
		host = strings.TrimSuffix(strings.TrimSuffix(host, "/v1"), "/v2")
		if !strings.HasPrefix(image, host) && !(host == "index.docker.io" && !strings.Contains(strings.Split(image, "/")[0], ".")) {
			continue
		}
		if c.Username == "" {
			if both, err := base64.StdEncoding.DecodeString(c.Auth); err == nil {
				c.Username, c.Password, _ = strings.Cut(string(both), ":")
			}
		}
		list = append(list, &cri.AuthConfig{Username: c.Username, Password: c.Password, ServerAddress: server})
	}
	return list
}
