package rest

// Names of the fields that are read or written by hand. The structs with JSON tags and the OpenAPI
// document have the same names, which a test compares.
const (
	nameActor       = "actor"
	nameActors      = "actors"
	nameAfter       = "after"
	nameAnnotate    = "annotate"
	nameAnnotated   = "annotated"
	nameAnswer      = "answer"
	nameAuthor      = "author"
	nameDegraded    = "degraded"
	nameDropped     = "dropped"
	nameExact       = "exact"
	nameFacets      = "facets"
	nameID          = "id"
	nameIndex       = "index"
	nameKind        = "kind"
	nameKinds       = "kinds"
	nameLimit       = "limit"
	nameList        = "list"
	nameLists       = "lists"
	nameNext        = "next"
	namePost        = "post"
	namePosts       = "posts"
	nameReason      = "reason"
	nameRecordSeen  = "record_seen"
	nameRelated     = "related"
	nameRole        = "role"
	nameTarget      = "target"
	nameText        = "text"
	nameUnconfirmed = "unconfirmed"
	nameViewer      = "viewer"
	nameViewers     = "viewers"
	nameWithin      = "within"
)

// The same names as they stand in front of a value.
const (
	keyActor       = `"` + nameActor + `":`
	keyAnnotated   = `"` + nameAnnotated + `":`
	keyAuthor      = `"` + nameAuthor + `":`
	keyDegraded    = `"` + nameDegraded + `":`
	keyDropped     = `"` + nameDropped + `":`
	keyID          = `"` + nameID + `":`
	keyIndex       = `"` + nameIndex + `":`
	keyKind        = `"` + nameKind + `":`
	keyList        = `"` + nameList + `":`
	keyNext        = `"` + nameNext + `":`
	keyPosts       = `"` + namePosts + `":`
	keyReason      = `"` + nameReason + `":`
	keyTarget      = `"` + nameTarget + `":`
	keyUnconfirmed = `"` + nameUnconfirmed + `":`
)

// Numbers of the fields that are read by hand. [feedReader.object] finds duplicates with them.
const (
	fieldActors = iota
	fieldAfter
	fieldAnnotate
	fieldAnswer
	fieldAuthor
	fieldExact
	fieldFacets
	fieldID
	fieldKinds
	fieldLimit
	fieldLists
	fieldPost
	fieldPosts
	fieldRecordSeen
	fieldRelated
	fieldRole
	fieldText
	fieldViewer
	fieldViewers
	fieldWithin
)
