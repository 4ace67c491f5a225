package opspage_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/opspage"
)

// object is a JSON object.
type object = map[string]any

// policy is the content security policy of the service.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// fake is a service with made-up answers, for large services and for states that are rare on a real
// one.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	health  object
	history object // default: busy
	page    object
	explain object
	kinds   object
	asked   object // body of the last call of explain
	token   string // required token; none if empty
	scopes  string // scopes of the token
	status  int    // status of all answers, if not 0
	posted  []string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{health: healthy(), page: onePage(), explain: explained(), kinds: builtIn()}
	mux := http.NewServeMux()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		opspage.New().ServeHTTP(w, r)
	})
	mux.Handle("GET /ops", page)
	mux.Handle("GET /ops/", page)
	mux.HandleFunc("GET /v1/ops/health", f.answer("ops:read", func(*http.Request) any { return f.health }))
	mux.HandleFunc("GET /v1/ops/history", f.answer("ops:read", f.historyOf))
	mux.HandleFunc("GET /v1/ops/pages/{number}", f.answer("ops:read", func(*http.Request) any { return f.page }))
	mux.HandleFunc("GET /v1/kinds", f.answer("ops:read", func(*http.Request) any { return f.kinds }))
	mux.HandleFunc("POST /v1/feed/explain", f.answer("ops:read", func(r *http.Request) any {
		f.asked = nil
		if err := json.NewDecoder(r.Body).Decode(&f.asked); err != nil {
			t.Error(err)
		}
		return f.explain
	}))
	mux.HandleFunc("POST /v1/ops/pages/{number}/rebuild", f.answer("ops:write", func(r *http.Request) any {
		f.posted = append(f.posted, r.URL.Path)
		return object{"number": 4711, "sequence": 18, "keys": 2103, "bytes": 7752, "took_ms": 3.1}
	}))
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// historyOf returns a history with as many steps as the real service.
func (f *fake) historyOf(r *http.Request) any {
	if f.history != nil {
		return f.history
	}
	switch r.FormValue("window") {
	case "1h":
		return busy(720, 5)
	case "24h":
		return busy(1440, 60)
	default:
		return busy(180, 5)
	}
}

// change changes the answers of the fake.
func (f *fake) change(to func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to()
}

func (f *fake) answer(scope string, of func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		refuse := func(status int, code, message string) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(object{"error": object{"code": code, "message": message}})
		}
		switch {
		case f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
			refuse(http.StatusUnauthorized, "unauthenticated", "a token is needed")
		case f.token != "" && !strings.Contains(f.scopes, scope):
			refuse(http.StatusForbidden, "forbidden", "the token lacks the scope "+scope)
		case f.status != 0:
			refuse(f.status, "internal", "something went wrong inside the service")
		default:
			_ = json.NewEncoder(w).Encode(of(r))
		}
	}
}

func healthy() object {
	return object{
		"status": "ready", "down": []any{}, "version": "v1.2.3", "uptime_seconds": 86400 * 3, "ledger": "postgres", "page_store": "redis-cluster",
		"false_positive_rate": 0.001, "poll_age_ms": 212, "staleness_bound_ms": 1000,
		"pages": object{
			"shared": 4096, "dedicated": 3, "looked_at": 4099, "faulty": 0, "keys": 8_123_450, "bytes": 26_000_000, "keys_per_page": 1983.2, "due": 0, "due_from": 4096, "counted_at": time.Now().Format(time.RFC3339),
		},
		"reshape":  object{"pages": 4096, "homes": 4096, "reshaped": 4096, "running": false},
		"scrub":    object{"position": 812, "pages": 4099, "rounds": 3, "alarms": 0, "found": object{}, "asked": object{"running": false, "done": 0, "all": 0, "found": object{}, "failed": 0, "unasked": 0}},
		"requests": object{"in_progress": 12, "limit": 512},
		"sampling": object{"feeds": 1000, "candidates": 512_000, "misses": 0, "false_positives": 180, "late": 2, "undecided": 1, "skipped": 0, "errors": 0, "repaired": 0},
		"sources":  []object{},
	}
}

// busy returns a history of n steps with waves in it.
func busy(n, step int) object {
	start := time.Now().Unix() - int64(n*step)
	columns := make(map[string][]float64)
	add := func(name string, v float64) { columns[name] = append(columns[name], v) }
	var times []int64
	for i := range n {
		wave := math.Sin(float64(i) / 14)
		ripple := math.Sin(float64(i)*1.7) * math.Sin(float64(i)*0.61)
		times = append(times, start+int64((i+1)*step))
		add("feeds", 1200+260*wave+60*ripple)
		add("candidates", 500*(1200+260*wave))
		add("writes", 310-80*wave+30*ripple)
		add("confirmed", 40+8*ripple)
		add("false_positives", max(0, ripple-0.6))
		add("rebuilds", max(0, 3*ripple))
		add("p50_ms", 0.62+0.08*wave+0.04*ripple)
		add("p99_ms", 2.4+0.5*wave+0.8*max(0, ripple))
		add("poll_age_ms", 260+140*ripple)
		add("heap_bytes", 180e6+30e6*math.Abs(ripple))
		add("page_bytes", 25e6+float64(i)*4000)
		add("keys", 7.9e6+float64(i)*1240)
		add("in_progress", math.Round(12+6*ripple))
		add("block", 5100+900*wave+200*ripple)
		add("hide", 820+100*ripple)
		add("seen", 21000+4000*wave+900*ripple)
		add("zero", 0)
	}
	h := object{"window_seconds": n * step, "step_seconds": step, "time": times}
	for _, name := range []string{"feeds", "candidates", "writes", "confirmed", "false_positives", "rebuilds", "p50_ms", "p99_ms", "poll_age_ms", "heap_bytes", "page_bytes", "keys", "in_progress"} {
		h[name] = columns[name]
	}
	h["dropped"] = object{"block": columns["block"], "hide": columns["hide"], "seen": columns["seen"]}
	h["degraded"], h["errors"], h["shed"] = columns["zero"], columns["zero"], columns["zero"]
	return h
}

func onePage() object {
	return object{
		"number": 4711, "dedicated": false, "state": "sound",
		"page": object{
			"sequence": 17, "left": 0, "keys": 2103, "bits": 49152, "hashes": 10, "region_bits": 4, "layers": []object{{"bits": 49152, "hashes": 10}},
			"set": 16000, "fill": 0.3255, "regions": 12288, "collided": 1400, "collided_share": 0.1139, "false_positive_rate": 0.0000134, "full_at": 0.5, "capacity": 2500,
			"bits_bytes": 6208, "regions_bytes": 1544, "build": "9c3f01d2e4b5a697", "incarnation": "0123456789abcdef",
		},
		"ledger": object{
			"sequence": 17, "left": 0, "keys": 2103, "kinds": object{"block": 1000, "blocked-by": 1000, "like": 103}, "users": 12,
			"largest": []object{{"user": "h:5b1f0a9c77e2", "keys": 800}, {"user": "h:0de4aa01b3c9", "keys": 410}, {"user": "h:99ab3c1d2e4f", "keys": 122}},
		},
		"agrees": true, "lacks": object{}, "residual_keys": 0, "behind": 0,
	}
}

func explained() object {
	return object{
		"dropped": true,
		"reasons": []object{
			{"kind": "block", "effect": "drop", "actor": "2", "direction": "by_actor", "certainty": "certain", "since": "2026-11-20T09:30:00.000123Z"},
			{"kind": "seen", "effect": "drop", "direction": "by_viewer", "certainty": "unconfirmed", "since": "2026-11-16T00:00:00Z", "until": "2026-12-21T00:00:00Z", "parts": []string{"2026-11-16T00:00:00Z"}},
		},
		"page":     object{"number": 4711, "sequence": 17, "keys": 2103, "bytes": 6144, "false_positive_rate": 0.00007},
		"degraded": []any{},
	}
}

func builtIn() object {
	kind := func(name, plural, target, effect string, twoWay, ledger bool) object {
		return object{"name": name, "plural": plural, "target": target, "effect": effect, "two_way": twoWay, "ledger": ledger, "limit": nil}
	}
	return object{"kinds": []object{
		kind("block", "blocks", "user", "drop", true, true), kind("hide", "hides", "post", "drop", false, true),
		kind("like", "likes", "post", "annotate", false, true), kind("seen", "seen", "post", "drop", false, false),
	}}
}
