/// The part of the API's description that is about documents that only one device may edit.
enum GrantDescription {
    static let paths = #"""
        {
          "/v1/volumes/{volume}/grants": {
            "post": {
              "operationId": "grants",
              "summary": "Asks for documents that only one device may edit, for more time, or \#
        ends grants. A grant ends 60 seconds after its last sign of life, if another asks for it.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/GrantRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "One result for each step.",
                  "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/GrantAnswer"}}}
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"},
                "429": {"$ref": "#/components/responses/TooMany"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"}
              }
            }
          }
        }
        """#

    static let schemas = #"""
        {
          "GrantRequest": {
            "type": "object",
            "properties": {
              "steps": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "kind": {"type": "string", "enum": ["take", "resume", "renew", "release"]},
                    "item": {"$ref": "#/components/schemas/Id"},
                    "number": {"$ref": "#/components/schemas/Count"},
                    "token": {"$ref": "#/components/schemas/Count"}
                  },
                  "required": ["kind", "item", "number"]
                },
                "minItems": 1,
                "maxItems": 128,
                "description": "Each has the token of its grant, except take. Of one process, a \#
        step whose number is not higher than that of the last one changes nothing."
              }
            },
            "required": ["steps"]
          },
          "GrantAnswer": {
            "type": "object",
            "properties": {
              "results": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "number": {"$ref": "#/components/schemas/Count"},
                    "token": {"$ref": "#/components/schemas/Count"},
                    "device": {"$ref": "#/components/schemas/Id"},
                    "deviceName": {"type": "string"},
                    "user": {"type": "string"}
                  },
                  "required": ["number"]
                },
                "description": "The token of the device's grant, or who has the document instead."
              }
            },
            "required": ["results"]
          }
        }
        """#
}
