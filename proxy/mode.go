package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/ipvs"
)

// ModeIPVS is the Config.Mode in which virtual servers of the kernel, IPVS, choose the endpoints.
const ModeIPVS = "ipvs"

// IPVS has the settings of ModeIPVS. Their names are kube-proxy's.
type IPVS struct {
	Scheduler string         // how an endpoint is chosen: rr, lc…; "": rr
	LooseARP  bool           // the kernel answers ARP for services' addresses on every interface, as it does without strictARP
	Exclude   []netip.Prefix // addresses whose virtual servers are somebody else's

	// How long the kernel remembers silent connections; 0: as it does.
	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration
}

func (c IPVS) scheduler() string { return cmp.Or(c.Scheduler, "rr") }

// A missingError names the modules that the kernel needs for ModeIPVS and has not, nor can load by itself.
type missingError struct{ modules []string }

func (e *missingError) Error() string {
	list := strings.Join(e.modules, " ")
	return fmt.Sprintf("the kernel lacks the modules [%s]; load them with `modprobe -a %s`, and at every start of the machine with "+
		"`printf '%%s\\n' %s >/etc/modules-load.d/kloop-ipvs.conf`", list, list, list)
}

// probe finds out whether the kernel can serve services by IPVS, by trying: that has it load the modules where it can.
func probe(cfg IPVS) error {
	var missing []string
	scheduler := "ip_vs_" + cfg.scheduler()
	conn, err := ipvs.Open()
	switch {
	case errors.Is(err, ipvs.ErrMissing):
		missing = append(missing, "ip_vs")
		if !loaded(scheduler) {
			missing = append(missing, scheduler)
		}
	case err != nil:
		return err
	default:
		defer conn.Close()
		if err := tryScheduler(conn, cfg.scheduler()); errors.Is(err, unix.ENOENT) {
			missing = append(missing, scheduler)
		} else if err != nil {
			return err
		}
		if _, err := os.Stat("/proc/sys/net/ipv4/vs/conntrack"); err != nil {
			return errors.New("the kernel's IPVS was built without conntrack (CONFIG_IP_VS_NFCT)")
		}
	}
	d, err := openDummy()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		missing = append(missing, "dummy")
	case err != nil:
		return err
	default:
		defer d.close()
		if len(missing) > 0 && d.link.Attrs().Alias == "" && !loadedAddresses(d) {
			_ = d.h.LinkDel(d.link) // it was only tried
		}
	}
	if len(missing) > 0 {
		return &missingError{missing}
	}
	return nil
}

func loadedAddresses(d *dummy) bool { return d.observe() != nil || len(d.have) > 0 }

// loaded says whether the kernel has a module already.
func loaded(module string) bool {
	_, err := os.Stat("/sys/module/" + module)
	return err == nil
}

// tryScheduler makes a virtual server with the scheduler at an address for documentation (RFC 5737), and deletes it.
func tryScheduler(c *ipvs.Conn, name string) error {
	at := ipvs.Key{Addr: netip.AddrFrom4([4]byte{198, 51, 100, 0}), Protocol: unix.IPPROTO_TCP, Port: 20000}
	var try, end ipvs.Changes
	try.Add(ipvs.Service{Key: at, Scheduler: name})
	end.Delete(at)
	if err := c.Do(&try); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return c.Do(&end)
}

// A mode has how the loop serves services now, and how it shall.
type mode struct {
	director *director // nil: nftables alone
	problem  string    // why it is not what was asked for
	looked   time.Time
	swept    bool // what ModeIPVS left is gone
}

// tend is the time after which ModeIPVS is looked after again: is it possible now, are connections over.
const tend = 5 * time.Second

// choose goes over to the mode that is asked for, if the kernel can do it, else to nftables, and says whether that is another than before.
func (m *mode) choose(cfg *Config, log *slog.Logger) bool {
	if cfg.Mode != ModeIPVS || m.director != nil {
		return false
	}
	m.looked = time.Now()
	err := probe(cfg.IPVS)
	if err == nil {
		m.director, err = newDirector(cfg.IPVS, log)
	}
	if err != nil {
		if text := err.Error(); text != m.problem {
			m.problem = text
			log.Warn("services can't be served by IPVS, nftables serves them", "err", err)
		}
		return false
	}
	m.problem = ""
	log.Info("services are served by IPVS", "scheduler", cfg.IPVS.scheduler())
	return true
}

// sweep takes away what ModeIPVS left, once nftables serves.
func (m *mode) sweep(cfg *Config, log *slog.Logger) {
	if m.director != nil || m.swept {
		return
	}
	if err := sweepIPVS(cfg.IPVS.Exclude); err != nil {
		log.Warn("take away what IPVS of before has left", "err", err)
		return
	}
	m.swept = true
}

func (m *mode) close() {
	if m.director != nil {
		m.director.close()
	}
}

// raise and lower are the director's, where there is one.
func (m *mode) raise(b *book) error {
	if m.director == nil {
		return nil
	}
	return m.director.raise(b)
}

func (m *mode) lower(b *book) error {
	if m.director == nil {
		return nil
	}
	if err := m.director.lower(b); err != nil {
		return err
	}
	clear(b.moved)
	return nil
}
