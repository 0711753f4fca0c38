package client

import "time"

// AskOften makes every Remote ask again for kinds that are not served after this pause. Call it before any runs.
func AskOften(pause time.Duration) { absentPause = pause }
