package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A fate is a pod's simulated life, as its annotations and its node's describe it. Times are kept to the second, as those of a
// status are.
type fate struct {
	hold, unready bool
	still         bool          // nothing happens to it
	pull          time.Duration // of an image
	broken        []string      // images that can't be pulled; "*" stands for all
	init          time.Duration // that an init container runs
	initExit      int32
	ready         time.Duration // from the start of a container until it is ready
	run           time.Duration // that containers run which end
	ends          bool          // when they have crashed enough all containers end, and the pod with them, whatever its restart policy
	exit          int32
	crashes       int // how often containers crash; they are restarted as the policy says
	crash         int32
	failing       []failing     // probes
	stop          time.Duration // that containers take to stop, at most the pod's grace period
}

// fateOf reads a pod's fate. What the pod does not say its node may.
func fateOf(p *corev1.Pod, n *corev1.Node) fate {
	get := func(key string) (string, bool) {
		if v, ok := p.Annotations[key]; ok {
			return v, true
		}
		if n != nil && slices.Contains(ofNodes, key) {
			v, ok := n.Annotations[key]
			return v, ok
		}
		return "", false
	}
	has := func(key string) bool { _, ok := get(key); return ok }
	f := fate{hold: has(Hold), still: has(Still), unready: has(Unready), pull: length(get(Pull)), init: length(get(Init)),
		ready: length(get(Ready)),
		run:   length(get(Run)), stop: length(get(Stop))}
	if v, ok := get(PullError); ok {
		f.broken = strings.Split(v, ",")
	}
	if v, ok := get(ProbeFail); ok {
		f.failing = failings(v)
	}
	f.exit, f.ends = code(get(Exit))
	f.initExit, _ = code(get(InitExit))
	if ref := metav1.GetControllerOfNoCopy(p); !f.ends && ref != nil && ref.Kind == "Job" && !has(Keep) {
		f.ends = true
	}
	if v, ok := get(Crash); ok {
		exit, times, limited := strings.Cut(v, "x")
		f.crash, _ = code(exit, true)
		f.crashes = always
		if k, err := strconv.Atoi(times); limited && err == nil {
			f.crashes = k
		}
	}
	return f
}

const always = 1 << 30

// ofNodes are the annotations that a node may carry for all its pods.
var ofNodes = []string{Pull, PullError, Init, Ready, Stop}

// length reads a time; what is none counts as none.
func length(v string, ok bool) time.Duration {
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// code reads an exit code; what is none counts as 1.
func code(v string, ok bool) (int32, bool) {
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		n = 1
	}
	return int32(n), true
}

// cantPull says whether an image is one that can't be pulled.
func (f *fate) cantPull(image string) bool {
	return slices.ContainsFunc(f.broken, func(b string) bool { return b == "*" || b == image })
}

// The pauses of a node agent before it pulls again, and starts again what crashed.
const (
	firstPause = 10 * time.Second
	longPause  = 5 * time.Minute
	cured      = 10 * time.Minute // a container that ran so long has its pauses forgotten
)

// pauseAfter is the time for which a container that ended for the n-th time waits for its restart: not at all the first time.
func pauseAfter(n int32) time.Duration {
	if n <= 1 {
		return 0
	}
	return min(firstPause<<min(n-2, 10), longPause)
}

// pulling tells what a node agent does with an image that it can't pull, some time after it first tried: whether it
// just failed or waits, and when that changes.
func pulling(since time.Duration) (tries int, failing bool, again time.Duration) {
	const failed = time.Second // that it says why before it says that it waits
	at, pause := time.Duration(0), firstPause
	for tries = 1; since >= at+pause; tries++ {
		at, pause = at+pause, min(2*pause, longPause)
	}
	if since < at+failed {
		return tries, true, at + failed - since
	}
	return tries, false, at + pause - since
}
