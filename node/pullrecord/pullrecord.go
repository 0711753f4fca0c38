// Package pullrecord remembers which images an agent has pulled, and what opened them, so that no pod starts on a private image only
// because somebody else's pull left it on the node's disk (KEP-2535). The files are the kubelet's:
//
//	DIR/pulling/sha256-HASH   of a name: a pull began; what is there under that name was not there before kloop
//	DIR/pulled/sha256-HASH    of an image's id: which credentials opened it, by its names without tags
package pullrecord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// A Secret is a pull secret that opened a registry. Hash is that of the credentials in it, so that the same ones in another secret count.
type Secret struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Hash      string `json:"credentialHash"`
}

func (s Secret) same(o Secret) bool {
	return s.UID == o.UID && s.Namespace == o.Namespace && s.Name == o.Name
}

// mostSecrets bounds those that are remembered for one name of an image; the oldest are forgotten, and checked by a pull.
const mostSecrets = 100

// grants hold what opened an image.
type grants struct {
	Secrets []Secret `json:"kubernetesSecrets,omitempty"`
	All     bool     `json:"nodePodsAccessible,omitempty"` // nothing was needed, or credentials of the node's
}

type record struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	At         time.Time         `json:"lastUpdatedTime"`
	ID         string            `json:"imageRef"`
	By         map[string]grants `json:"credentialMapping"`
}

const apiVersion = "kubelet.config.k8s.io/v1beta1"

// A Store keeps the records of one node. It is safe for concurrent use.
type Store struct {
	dir    string
	policy Policy
	mu     sync.Mutex
}

// Open returns the records below dir, which need not be there.
func Open(dir string, p Policy) *Store { return &Store{dir: dir, policy: p} }

// Hash is the one of credentials.
func Hash(user, password string) string {
	text, _ := json.Marshal([2]string{user, password}) // strings can be written
	return sum(string(text))
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

func (s *Store) file(sort, key string) string { return filepath.Join(s.dir, sort, "sha256-"+sum(key)) }

// Begin notes that a pull begins. Without that note there must be no pull.
func (s *Store) Begin(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return write(s.file("pulling", image), map[string]string{"kind": "ImagePullIntent", "apiVersion": apiVersion, "image": image})
}

// Failed forgets a pull that left nothing.
func (s *Store) Failed(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = os.Remove(s.file("pulling", image)) // what stays asks for a pull more than needed
}

// Done notes that a pull ended well: image is the name that was pulled, id what it stands for, by what opened it; nil: nothing was needed.
func (s *Store) Done(image, id string, by *Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.grant(image, id, by); err != nil {
		return err
	}
	return ifThere(os.Remove(s.file("pulling", image)))
}

func (s *Store) grant(image, id string, by *Secret) error {
	r, _ := s.read(id) // what can't be read is begun anew: it only asks for more pulls
	if r == nil {
		r = &record{Kind: "ImagePulledRecord", APIVersion: apiVersion, ID: id, By: map[string]grants{}}
	}
	g := r.By[repository(image)]
	switch {
	case g.All:
	case by == nil:
		g = grants{All: true}
	default:
		g.Secrets = slices.DeleteFunc(g.Secrets, by.same)
		g.Secrets = append(g.Secrets, *by)
		g.Secrets = g.Secrets[max(0, len(g.Secrets)-mostSecrets):]
	}
	r.By[repository(image)], r.At = g, time.Now().UTC()
	return write(s.file("pulled", id), r)
}

// May says whether a pod may start on an image that is there without a pull: nobody has to ask for it, or one of the pod's secrets, which
// are asked for only then, has opened it before.
func (s *Store) May(image, id string, secrets func() []Secret) (bool, error) {
	g, free, err := s.look(image, id)
	if err != nil || free {
		return free, err
	}
	if len(g.Secrets) == 0 {
		return g.All, nil
	}
	for _, have := range secrets() {
		for _, known := range g.Secrets {
			alike := known.Hash == have.Hash
			switch {
			case alike && known.same(have):
				return true, nil
			case alike || known.same(have): // another with the same key, or the same with a new one
				s.mu.Lock()
				defer s.mu.Unlock()
				return true, s.grant(image, id, &have)
			}
		}
	}
	return false, nil
}

// look finds what opened an image, and whether nobody has to ask for it.
func (s *Store) look(image, id string) (g grants, free bool, err error) {
	if s.policy.Name == NeverVerify {
		return grants{}, true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.read(id)
	if err != nil {
		return grants{}, false, err
	}
	pulled := r != nil
	if !pulled {
		_, err := os.Stat(s.file("pulling", image))
		if pulled = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return grants{}, false, err
		}
	}
	if r != nil {
		g = r.By[repository(image)]
	}
	return g, !s.policy.verifies(repository(image), pulled), nil
}

// read returns nil for an image that was not pulled.
func (s *Store) read(id string) (*record, error) {
	text, err := os.ReadFile(s.file("pulled", id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read who pulled image %s: %w", id, err)
	}
	if r.By == nil {
		r.By = map[string]grants{}
	}
	return r, nil
}

// settled is the age from which a record may be forgotten: the list of images may be older than the newest ones.
const settled = 5 * time.Minute

// Prune forgets images that are not there any more. ids are those that are.
func (s *Store) Prune(ids []string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[string]bool{}
	for _, id := range ids {
		keep[filepath.Base(s.file("pulled", id))] = true
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "pulled"))
	for _, e := range entries {
		if info, ierr := e.Info(); ierr == nil && !keep[e.Name()] && now.Sub(info.ModTime()) > settled {
			err = errors.Join(err, ifThere(os.Remove(filepath.Join(s.dir, "pulled", e.Name()))))
		}
	}
	return ifThere(err)
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// repository is an image's name without tag and digest: a credential that opens one version opens all of them.
func repository(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TrimNamed(named).String()
}

func write(path string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the records of pulled images: %w", err)
	}
	return nil
}
