package httpapi

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

type kindsAnswer struct {
	Kinds []kindAnswer `json:"kinds"`
}

// kindAnswer has the fields of an [activity.Kind], in the words of the API.
type kindAnswer struct {
	Name          string   `json:"name"`
	Plural        string   `json:"plural"`
	Target        string   `json:"target"`
	Effect        string   `json:"effect"`
	Roles         []string `json:"roles,omitzero"` // nil: all
	Over          []string `json:"over,omitzero"`
	Fanout        bool     `json:"fanout,omitzero"`
	TwoWay        bool     `json:"two_way"`
	Ledger        bool     `json:"ledger"`
	WindowSeconds int64    `json:"window_seconds,omitzero"`
	Parts         int      `json:"parts,omitzero"` // of the window
	Most          int      `json:"most,omitzero"`  // keys in the window; 0: not configured
	Limit         *uint32  `json:"limit"`          // null: no limit
}

// kinds answers with all kinds of activities.
func (s *service) kinds(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var answer kindsAnswer
	for _, k := range s.activities.Kinds().All() {
		a := kindAnswer{
			Name: k.Name, Plural: k.Plural, Target: string(k.Target), Effect: k.Effect.String(), Roles: k.Roles, Over: k.Over, Fanout: k.Fanout,
			TwoWay: k.Reverse != "", Ledger: k.InLedger(), WindowSeconds: int64(k.Window.Seconds()),
		}
		if !k.InLedger() {
			a.Parts, a.Most = cmp.Or(k.Parts, activity.DefaultParts), k.Most
		}
		if k.Limit > 0 {
			a.Limit = &k.Limit
		}
		answer.Kinds = append(answer.Kinds, a)
	}
	return respond(c, http.StatusOK, answer)
}
