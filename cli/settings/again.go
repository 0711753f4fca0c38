package settings

// Again reads file and environment anew, with the flags that were given, as Fill did.
func (s *Sheet) Again() (*Sheet, *Options, error) {
	o := Defaults()
	next := New(&o)
	next.flagged = s.flagged
	if s.lookup == nil {
		return next, &o, nil // it was never filled
	}
	return next, &o, next.Fill(s.file, s.lookup)
}

// Live tells how a setting changes while a process runs: "SIGHUP", by that signal; "file", within half a minute when the
// file changes that it names; "restart".
func Live(key string) string {
	switch key {
	case "log":
		return "SIGHUP"
	case "api.certFile", "api.keyFile", "api.clientCAFile", "encryption.configFile", "authentication.configFile", "authorization.configFile":
		return "file"
	}
	return "restart"
}

// Differ returns the keys of the settings that have another value than in a sheet of before.
func (s *Sheet) Differ(before *Sheet) (keys []string) {
	for i := range s.list {
		if t := &s.list[i]; t.text() != before.find(t.Key).text() {
			keys = append(keys, t.Key)
		}
	}
	return keys
}
