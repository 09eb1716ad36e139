/// The part of the API's description that is about operations and items, which are the types of
/// `Reconcile`.
enum ItemDescription {
    /// JSON Schemas by name.
    static let schemas = #"""
        {
          "OperationId": {
            "type": "object",
            "properties": {
              "device": {"$ref": "#/components/schemas/Id"},
              "epoch": {"$ref": "#/components/schemas/Epoch"},
              "number": {"$ref": "#/components/schemas/Count"}
            },
            "required": ["device", "epoch", "number"]
          },
          "Moment": {
            "type": "object",
            "properties": {
              "time": {"$ref": "#/components/schemas/Time"},
              "device": {"$ref": "#/components/schemas/Id"}
            },
            "required": ["time", "device"]
          },
          "Placement": {
            "type": "object",
            "properties": {
              "parent": {"$ref": "#/components/schemas/Id"},
              "name": {
                "type": "string",
                "description": "1 to 255 bytes, no slash, no NUL, not . or .."
              },
              "key": {"$ref": "#/components/schemas/Base64"},
              "spare": {"type": "string", "description": "The item's name if its own is \#
        taken."},
              "spareKey": {"$ref": "#/components/schemas/Base64"}
            },
            "required": ["parent", "name", "key", "spare", "spareKey"]
          },
          "Note": {
            "type": "object",
            "properties": {
              "deviceName": {"type": "string"},
              "person": {"type": "string"},
              "program": {"type": "string"},
              "name": {"type": "string"},
              "modified": {"$ref": "#/components/schemas/Time"},
              "saved": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["deviceName", "person", "program", "name", "modified", "saved"]
          },
          "Revision": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "parents": {"type": "array", "items": {"$ref": "#/components/schemas/Id"}},
              "content": {"$ref": "#/components/schemas/Digest"},
              "size": {"$ref": "#/components/schemas/Count"},
              "moment": {"$ref": "#/components/schemas/Moment"},
              "sequence": {"$ref": "#/components/schemas/Count"},
              "recordedBy": {"anyOf": [{"$ref": "#/components/schemas/OperationId"}, {"type": \#
        "null"}]},
              "equals": {"type": "array", "items": {"$ref": "#/components/schemas/Id"}},
              "note": {"$ref": "#/components/schemas/Note"}
            },
            "required": ["id", "parents", "content", "size", "moment", "sequence", "equals", \#
        "note"]
          },
          "Kind": {
            "type": "integer",
            "enum": [1, 2, 3, 4],
            "description": "1 file, 2 directory, 3 package, 4 symbolic link."
          },
          "Creation": {
            "type": "object",
            "properties": {
              "kind": {"$ref": "#/components/schemas/Kind"},
              "placement": {"$ref": "#/components/schemas/Placement"},
              "revision": {"anyOf": [{"$ref": "#/components/schemas/Revision"}, {"type": \#
        "null"}]},
              "target": {"type": ["string", "null"]},
              "attributes": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Base64"}
              }
            },
            "required": ["kind", "placement", "attributes"]
          },
          "Change": {
            "oneOf": [
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "create"},
                  "create": {"$ref": "#/components/schemas/Creation"}
                },
                "required": ["do", "create"]
              },
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "edit"},
                  "revision": {"$ref": "#/components/schemas/Revision"}
                },
                "required": ["do", "revision"]
              },
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "move"},
                  "placement": {"$ref": "#/components/schemas/Placement"},
                  "base": {"$ref": "#/components/schemas/OperationId"}
                },
                "required": ["do", "placement", "base"]
              },
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "delete"},
                  "current": {"anyOf": [{"$ref": "#/components/schemas/Id"}, {"type": "null"}]}
                },
                "required": ["do"]
              },
              {
                "type": "object",
                "properties": {"do": {"type": "string", "const": "restore"}},
                "required": ["do"]
              },
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "attribute"},
                  "name": {"type": "string"},
                  "value": {"anyOf": [{"$ref": "#/components/schemas/Base64"}, {"type": \#
        "null"}]}
                },
                "required": ["do", "name"]
              },
              {
                "type": "object",
                "properties": {
                  "do": {"type": "string", "const": "resolve"},
                  "resolved": {"type": "array", "items": {"$ref": "#/components/schemas/Id"}},
                  "revision": {"anyOf": [{"$ref": "#/components/schemas/Revision"}, {"type": \#
        "null"}]}
                },
                "required": ["do", "resolved"]
              }
            ]
          },
          "Content": {
            "type": "object",
            "properties": {
              "manifest": {"$ref": "#/components/schemas/Base64"},
              "chunks": {"$ref": "#/components/schemas/PackedIds"}
            },
            "required": ["manifest", "chunks"]
          },
          "Operation": {
            "type": "object",
            "properties": {
              "number": {
                "type": "integer",
                "minimum": 1,
                "maximum": 9223372036854775807,
                "format": "int64"
              },
              "item": {"$ref": "#/components/schemas/Id"},
              "time": {"$ref": "#/components/schemas/Time"},
              "base": {"$ref": "#/components/schemas/Count"},
              "change": {"$ref": "#/components/schemas/Change"},
              "content": {"anyOf": [{"$ref": "#/components/schemas/Content"}, {"type": \#
        "null"}]},
              "group": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 9223372036854775807,
                "format": "int64",
                "description": "Consecutive operations with the same group are applied \#
        together or not at all."
              },
              "fence": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 9223372036854775807,
                "format": "int64",
                "description": "The fencing token of the grant under which the edit was begun. \#
        If another device has the document, the version is in conflict."
              }
            },
            "required": ["number", "item", "time", "base", "change"]
          },
          "CommitRequest": {
            "type": "object",
            "properties": {
              "device": {"$ref": "#/components/schemas/Id"},
              "epoch": {"$ref": "#/components/schemas/Epoch"},
              "volumeEpoch": {"$ref": "#/components/schemas/Id"},
              "cursor": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 9223372036854775807,
                "format": "int64"
              },
              "run": {"anyOf": [{"$ref": "#/components/schemas/Id"}, {"type": "null"}]},
              "collection": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 9223372036854775807,
                "format": "int64"
              },
              "operations": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Operation"},
                "maxItems": 1000
              },
              "sent": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["device", "epoch", "volumeEpoch", "operations", "sent"]
          },
          "Verdict": {
            "oneOf": [
              {
                "type": "object",
                "properties": {"is": {"type": "string", "enum": ["applied", "bounced", \#
        "conflict"]}},
                "required": ["is"]
              },
              {
                "type": "object",
                "properties": {
                  "is": {"type": "string", "const": "overruled"},
                  "reason": {
                    "type": "string",
                    "enum": [
                      "newerMove", "newerValue", "cycle", "unseenChange", "partly",
                      "unknownItem", "alreadyGone"
                    ]
                  }
                },
                "required": ["is", "reason"]
              },
              {
                "type": "object",
                "properties": {
                  "is": {"type": "string", "const": "unified"},
                  "into": {"$ref": "#/components/schemas/Id"}
                },
                "required": ["is", "into"]
              }
            ]
          },
          "Refusal": {
            "type": "object",
            "properties": {
              "code": {"type": "string", "enum": ["quota", "malformed", "group"]},
              "message": {"type": "string"},
              "takenVersion": {"$ref": "#/components/schemas/Id"},
              "takenItem": {"$ref": "#/components/schemas/Id"}
            },
            "required": ["code", "message"]
          },
          "Result": {
            "type": "object",
            "properties": {
              "number": {"$ref": "#/components/schemas/Count"},
              "verdict": {"$ref": "#/components/schemas/Verdict"},
              "refusal": {"$ref": "#/components/schemas/Refusal"},
              "sequence": {"$ref": "#/components/schemas/Count"}
            },
            "required": ["number", "sequence"]
          },
          "CommitAnswer": {
            "type": "object",
            "properties": {
              "results": {"type": "array", "items": {"$ref": "#/components/schemas/Result"}},
              "head": {"$ref": "#/components/schemas/Count"},
              "volumeEpoch": {"$ref": "#/components/schemas/Id"},
              "received": {"$ref": "#/components/schemas/Time"},
              "answered": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["results", "head", "volumeEpoch", "received", "answered"]
          },
          "Register": {
            "type": "object",
            "properties": {
              "value": {"$ref": "#/components/schemas/Base64"},
              "moment": {"$ref": "#/components/schemas/Moment"},
              "sequence": {"$ref": "#/components/schemas/Count"}
            },
            "required": ["moment", "sequence"]
          },
          "Life": {
            "type": "object",
            "properties": {
              "batch": {"$ref": "#/components/schemas/OperationId"},
              "sequence": {"$ref": "#/components/schemas/Count"}
            },
            "description": "Empty if alive; otherwise the operation that put it into the trash."
          },
          "Item": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "kind": {"$ref": "#/components/schemas/Kind"},
              "target": {"type": "string"},
              "placement": {"$ref": "#/components/schemas/Placement"},
              "placedBy": {"$ref": "#/components/schemas/OperationId"},
              "placedAt": {"$ref": "#/components/schemas/Moment"},
              "placedSequence": {"$ref": "#/components/schemas/Count"},
              "isBounced": {"type": "boolean"},
              "current": {"$ref": "#/components/schemas/Revision"},
              "conflicts": {"type": "array", "items": {"$ref": \#
        "#/components/schemas/Revision"}},
              "attributes": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Register"}
              },
              "life": {"$ref": "#/components/schemas/Life"},
              "sequence": {"$ref": "#/components/schemas/Count"}
            },
            "required": [
              "id", "kind", "placement", "placedBy", "placedAt", "placedSequence", "isBounced",
              "conflicts", "attributes", "life", "sequence"
            ]
          },
          "ItemChange": {
            "oneOf": [
              {
                "type": "object",
                "properties": {"item": {"$ref": "#/components/schemas/Item"}},
                "required": ["item"]
              },
              {
                "type": "object",
                "properties": {
                  "id": {"$ref": "#/components/schemas/Id"},
                  "alias": {"$ref": "#/components/schemas/Id"}
                },
                "required": ["id", "alias"]
              }
            ]
          },
          "ChangesAnswer": {
            "type": "object",
            "properties": {
              "changes": {"type": "array", "items": {"$ref": \#
        "#/components/schemas/ItemChange"}},
              "next": {"$ref": "#/components/schemas/Count"},
              "run": {"$ref": "#/components/schemas/Id"},
              "head": {"$ref": "#/components/schemas/Count"},
              "volumeEpoch": {"$ref": "#/components/schemas/Id"},
              "acknowledged": {"$ref": "#/components/schemas/Count"},
              "deviceEpoch": {"$ref": "#/components/schemas/Epoch"},
              "time": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["changes", "next", "head", "volumeEpoch", "acknowledged", \#
        "deviceEpoch", "time"]
          },
          "Hint": {
            "type": "object",
            "properties": {
              "head": {"$ref": "#/components/schemas/Count"},
              "beat": {"$ref": "#/components/schemas/Time"},
              "ended": {"$ref": "#/components/schemas/Failure"},
              "process": {"$ref": "#/components/schemas/Id"},
              "leases": {"$ref": "#/components/schemas/Count"}
            },
            "description": "A line of the feed: changes up to head, a heartbeat, a question \#
        whether a process is alive, the revision of the leases, or the end of the feed."
          },
          "HoldingRequest": {
            "type": "object",
            "properties": {
              "revisions": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Id"},
                "maxItems": 8192
              },
              "gone": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Id"},
                "maxItems": 8192
              }
            },
            "required": ["revisions"]
          },
          "RevisionList": {
            "type": "object",
            "properties": {
              "revisions": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Id"},
                "maxItems": 8192
              }
            },
            "required": ["revisions"]
          },
          "DurabilityAnswer": {
            "type": "object",
            "properties": {
              "devices": {"type": "array", "items": {"type": ["integer", "null"], "minimum": 0}}
            },
            "required": ["devices"]
          },
          "ChunksAnswer": {
            "type": "object",
            "properties": {
              "kept": {"$ref": "#/components/schemas/Count"},
              "bad": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "id": {"$ref": "#/components/schemas/Digest"},
                    "message": {"type": "string"}
                  },
                  "required": ["id", "message"]
                }
              }
            },
            "required": ["kept", "bad"]
          },
          "WantedAnswer": {
            "type": "object",
            "properties": {"chunks": {"$ref": "#/components/schemas/PackedIds"}},
            "required": ["chunks"]
          }
        }
        """#
}
