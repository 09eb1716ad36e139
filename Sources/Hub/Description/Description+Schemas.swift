extension Description {
    /// JSON Schemas of bodies, which are the types of `HubProtocol`.
    static let schemas = #"""
        {
          "Id": {
            "type": "string",
            "pattern": "^[0-9a-fA-F]{32}$",
            "description": "The id of a device, an item, a version or a volume: 128 random bits."
          },
          "Digest": {
            "type": "string",
            "pattern": "^01[0-9a-fA-F]{64}$",
            "description": "The algorithm's tag (1: SHA-256) and the hash."
          },
          "Count": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807, \#
        "format": "int64"},
          "Time": {
            "type": "integer",
            "minimum": -9223372036854775808,
            "maximum": 9223372036854775807,
            "format": "int64",
            "description": "Nanoseconds since 1970."
          },
          "Epoch": {"type": "integer", "minimum": 0, "maximum": 4294967295},
          "Base64": {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcg\#
        kosw048]=)?$"
          },
          "PackedIds": {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{128})*([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=|[A-Za-z0-\#
        9+/]{85}[AQgw]==)?$",
            "description": "Ids of chunks, 32 bytes each: HMAC-SHA256 under the volume's \#
        chunkKey of the tagged digest (33 bytes) of the plain bytes."
          },
          "Failure": {
            "type": "object",
            "properties": {
              "code": {
                "type": "string",
                "enum": [
                  "malformed", "unauthenticated", "code", "forbidden", "notFound", "method",
                  "taken", "missing", "gap", "collection", "volumeEpoch", "deviceEpoch", "copied",
                  "cloned", "tooLarge", "contentType", "tooMany", "failed", "busy", "quota",
                  "full"
                ]
              },
              "message": {"type": "string", "description": "A sentence that says what is \#
        wrong and what to do."},
              "missing": {"$ref": "#/components/schemas/PackedIds"},
              "expected": {"$ref": "#/components/schemas/Count"},
              "epoch": {"$ref": "#/components/schemas/Id"},
              "deviceEpoch": {"$ref": "#/components/schemas/Epoch"}
            },
            "required": ["code", "message"],
            "description": "The body of each answer whose status is not 200."
          },
          "Done": {"type": "object", "properties": {}},
          "Health": {
            "type": "object",
            "properties": {"status": {"type": "string", "const": "ok"}},
            "required": ["status"]
          },
          "EnrolRequest": {
            "type": "object",
            "properties": {
              "code": {
                "type": "string",
                "description": "A code of concord hub invite, which works once within seven days."
              },
              "deviceName": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "The name that people see: 1 to 255 bytes, no control characters."
              },
              "device": {"$ref": "#/components/schemas/Id"},
              "volume": {"$ref": "#/components/schemas/VolumeRequest"}
            },
            "required": ["code", "deviceName", "device"]
          },
          "EnrolAnswer": {
            "type": "object",
            "properties": {
              "token": {"type": "string", "description": "A secret for Authorization: \#
        Bearer."},
              "user": {"type": "string"},
              "account": {"$ref": "#/components/schemas/Id"},
              "device": {"$ref": "#/components/schemas/Id"},
              "epoch": {"$ref": "#/components/schemas/Epoch"},
              "volumes": {"type": "array", "items": {"$ref": "#/components/schemas/VolumeName"}}
            },
            "required": ["token", "user", "account", "device", "epoch", "volumes"]
          },
          "VolumeName": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "name": {"type": "string"},
              "role": {"$ref": "#/components/schemas/Role"},
              "owner": {
                "type": "string",
                "description": "The name of the account that owns it, if it is another one."
              }
            },
            "required": ["id", "name"]
          },
          "SplitRequest": {
            "type": "object",
            "properties": {
              "device": {"$ref": "#/components/schemas/Id"},
              "deviceName": {"type": "string", "minLength": 1, "maxLength": 255}
            },
            "required": ["device", "deviceName"]
          },
          "TokenAnswer": {
            "type": "object",
            "properties": {
              "token": {"type": "string", "description": "A secret for Authorization: \#
        Bearer."},
              "expires": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["token"]
          },
          "EpochAnswer": {
            "type": "object",
            "properties": {"epoch": {"$ref": "#/components/schemas/Epoch"}},
            "required": ["epoch"]
          },
          "DeviceList": {
            "type": "object",
            "properties": {"devices": {"type": "array", "items": {"$ref": \#
        "#/components/schemas/Device"}}},
            "required": ["devices"]
          },
          "Device": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "name": {"type": "string"},
              "enrolled": {"$ref": "#/components/schemas/Time"},
              "seen": {"$ref": "#/components/schemas/Time"},
              "isRevoked": {"type": "boolean"},
              "isSelf": {"type": "boolean"}
            },
            "required": ["id", "name", "enrolled", "seen", "isRevoked", "isSelf"]
          },
          "VolumeRequest": {
            "type": "object",
            "properties": {
              "name": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "1 to 255 bytes, no control characters."
              },
              "owner": {
                "type": "string",
                "description": "The name of the account that owns the volume, if it is another \#
        one. Then nothing is created."
              },
              "id": {"$ref": "#/components/schemas/Id"}
            },
            "required": ["name"]
          },
          "VolumeAnswer": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "name": {"type": "string"},
              "epoch": {"$ref": "#/components/schemas/Id"},
              "chunkKey": {"$ref": "#/components/schemas/Base64"},
              "nameKey": {"$ref": "#/components/schemas/Base64"},
              "head": {"$ref": "#/components/schemas/Count"},
              "created": {"type": "boolean"},
              "role": {"$ref": "#/components/schemas/Role"},
              "owner": {"type": "string"}
            },
            "required": ["id", "name", "epoch", "chunkKey", "nameKey", "head", "created"]
          },
          "VolumeList": {
            "type": "object",
            "properties": {
              "volumes": {"type": "array", "items": {"$ref": "#/components/schemas/VolumeName"}}
            },
            "required": ["volumes"]
          }
        }
        """#
}
