package meter

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// startup measures how long the machine took to be a node, from its boot on, in the kubelet's steps. Its mutex is the meter's.
type startup struct {
	uptime                   time.Duration // of the machine, when the agent began
	began, tried, registered time.Time
	ready                    bool

	before, preparing, registering, settling, total prometheus.Gauge
}

func newStartup(m *Meter) startup {
	gauge := func(part, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_node_startup_" + part + "duration_seconds",
			Help: "Duration in seconds of node startup " + help})
		m.registry.MustRegister(g)
		return g
	}
	return startup{uptime: uptime(), began: time.Now(), before: gauge("pre_kubelet_", "before kubelet starts."),
		preparing: gauge("pre_registration_", "before registration."), registering: gauge("registration_", "during registration."),
		settling: gauge("post_registration_", "after registration."), total: gauge("", "in total.")}
}

// uptime is the time since the machine was started; 0: nobody knows.
func uptime() time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// Registers notes that the agent goes to make its Node.
func (m *Meter) Registers() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := &m.startup; s.tried.IsZero() {
		s.tried = time.Now()
	}
}

// Registered notes that the agent made its Node.
func (m *Meter) Registered() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := &m.startup; s.registered.IsZero() && !s.tried.IsZero() {
		s.registered = time.Now()
		s.before.Set(s.uptime.Seconds())
		s.preparing.Set(s.tried.Sub(s.began).Seconds())
		s.registering.Set(s.registered.Sub(s.tried).Seconds())
	}
}

// Ready notes that the Node is ready. It is nothing to measure where an earlier agent made it.
func (m *Meter) Ready() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := &m.startup; !s.ready && !s.registered.IsZero() {
		s.ready = true
		s.settling.Set(time.Since(s.registered).Seconds())
		s.total.Set((s.uptime + time.Since(s.began)).Seconds())
	}
}
