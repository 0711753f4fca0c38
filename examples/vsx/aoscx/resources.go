package aoscx

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// A Ref is a reference to other resources, by name. Releases and depths write it as a path, a list of paths, a map from names to
// paths, or a map from names to the resources themselves.
type Ref []string

// UnmarshalJSON implements json.Unmarshaler.
func (r *Ref) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*r = nil
	switch v := v.(type) {
	case string:
		*r = append(*r, last(v))
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				*r = append(*r, last(s))
			}
		}
	case map[string]any:
		for name := range v {
			*r = append(*r, name)
		}
	}
	slices.Sort(*r)
	return nil
}

// One is the name of the only resource; "": there is none, or several.
func (r Ref) One() string {
	if len(r) == 1 {
		return r[0]
	}
	return ""
}

// last is the name at the end of a path.
func last(path string) string {
	path = path[strings.LastIndexByte(path, '/')+1:]
	if name, err := url.PathUnescape(path); err == nil {
		return name
	}
	return path
}

// RefTo is a reference as it is written: the path of the resource.
func (c *Client) RefTo(parts ...string) string {
	version := c.Version
	if version == "" {
		version = DefaultVersion
	}
	return "/rest/" + version + "/" + Path(parts...)
}

// A System is a switch as a whole.
type System struct {
	Hostname string `json:"hostname"`
	Platform string `json:"platform_name"`
	Software string `json:"software_version"`
	MAC      string `json:"system_mac"`
	// Changed is the time of the last change of the configuration: each makes it another number.
	Changed json.Number `json:"last_configuration_time"`
}

// An Interface is a port, a link aggregation group or a VLAN's interface.
type Interface struct {
	Name        string            `json:"name"`
	Admin       string            `json:"admin"`
	UserConfig  map[string]string `json:"user_config"`
	LinkState   string            `json:"link_state"`
	Description string            `json:"description"`
	Routing     bool              `json:"routing"`
	VRF         Ref               `json:"vrf"`
	IP4         string            `json:"ip4_address"`
	Members     Ref               `json:"interfaces"`
	LACP        string            `json:"lacp"`
	VLANMode    string            `json:"vlan_mode"`
	VLANTag     Ref               `json:"vlan_tag"`
	VLANTrunks  Ref               `json:"vlan_trunks"`
	Other       map[string]any    `json:"other_config"`
	VirtualIP4  []string          `json:"vsx_virtual_ip4"`
	VirtualMAC  string            `json:"vsx_virtual_gw_mac_v4"`
}

// Up says that the interface is meant to be up.
func (i *Interface) Up() bool {
	if v, ok := i.UserConfig["admin"]; ok {
		return v == "up"
	}
	return i.Admin == "up"
}

// VSX is the pair as one of its switches sees it. States that are not known count as not in sync.
type VSX struct {
	Role           string `json:"device_role"`
	ISL            Ref    `json:"isl_port"`
	LinkupDelay    int    `json:"linkup_delay_timer"`
	SystemMAC      string `json:"system_mac"`
	KeepaliveVRF   Ref    `json:"keepalive_vrf"`
	KeepaliveFrom  string `json:"keepalive_src_ip"`
	KeepalivePeer  string `json:"keepalive_peer_ip"`
	SyncFeatures   Names  `json:"config_sync_features"`
	SyncOff        bool   `json:"config_sync_disable"`
	Oper           Oper   `json:"oper_status"`
	KeepaliveState struct {
		State string `json:"state"`
	} `json:"keepalive_status"`
	Peer struct {
		Ready    any    `json:"peer_ready"` // a truth value, or a word
		MAC      string `json:"system_mac"`
		Platform string `json:"platform_name"`
		Software string `json:"peer_sw_version"`
		Role     string `json:"device_role"`
	} `json:"peer_status"`
}

// Oper are the states of a pair.
type Oper struct {
	ISL    string `json:"islp_link_state"`
	Device string `json:"islp_device_state"`
	Mgmt   string `json:"isl_mgmt_state"`
	Sync   string `json:"config_sync_state"`
}

// Names is a list of words, which some releases write as one word when it is alone.
type Names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *Names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*n = Names{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

func attributes(list ...string) url.Values {
	return url.Values{"attributes": {strings.Join(list, ",")}, "depth": {"1"}}
}

// System reads what the switch is.
func (c *Client) System(ctx context.Context) (s System, err error) {
	return s, c.Get(ctx, "system", attributes("hostname", "platform_name", "software_version", "system_mac", "last_configuration_time"), &s)
}

// Names lists a collection: system/vlans.
func (c *Client) Names(ctx context.Context, path string) (r Ref, err error) {
	return r, c.Get(ctx, path, url.Values{"depth": {"1"}}, &r)
}

// Interface reads a port; nil: there is none of that name.
func (c *Client) Interface(ctx context.Context, name string) (*Interface, error) {
	i := &Interface{}
	err := c.Get(ctx, Path("system", "interfaces", name), attributes("name", "admin", "user_config", "link_state", "description", "routing",
		"vrf", "ip4_address", "interfaces", "lacp", "vlan_mode", "vlan_tag", "vlan_trunks", "other_config", "vsx_virtual_ip4",
		"vsx_virtual_gw_mac_v4"), i)
	if NotFound(err) {
		return nil, nil
	}
	return i, err
}

// VSX reads the pair; nil: the switch is in none.
func (c *Client) VSX(ctx context.Context) (*VSX, error) {
	v := &VSX{}
	err := c.Get(ctx, "system/vsx", attributes("device_role", "isl_port", "linkup_delay_timer", "system_mac", "keepalive_vrf",
		"keepalive_src_ip", "keepalive_peer_ip", "config_sync_features", "config_sync_disable", "oper_status", "keepalive_status",
		"peer_status"), v)
	if NotFound(err) {
		return nil, nil
	}
	return v, err
}

// The configuration that runs and the one that a restart begins with.
const (
	Running = "fullconfigs/running-config"
	Startup = "fullconfigs/startup-config"
)

// Saved says whether a restart begins with what runs.
func (c *Client) Saved(ctx context.Context) (bool, error) {
	var run, start any
	if err := c.Get(ctx, Running, nil, &run); err != nil {
		return false, err
	}
	if err := c.Get(ctx, Startup, nil, &start); err != nil && !NotFound(err) {
		return false, err
	}
	a, err := json.Marshal(run)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(start)
	return string(a) == string(b), err
}

// Save has a restart begin with what runs.
func (c *Client) Save(ctx context.Context) error {
	return c.Put(ctx, Startup+"?from="+url.QueryEscape(c.RefTo("fullconfigs", "running-config")), struct{}{})
}

// Word is a state as the command line prints it: in_sync and in-sync are In-Sync.
func Word(state string) string {
	parts := strings.FieldsFunc(state, func(r rune) bool { return r == '_' || r == '-' })
	for i, p := range parts {
		parts[i] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "-")
}
