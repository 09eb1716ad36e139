/// The part of the API's description that is about leases on open documents.
enum LeaseDescription {
    static let paths = #"""
        {
          "/v1/volumes/{volume}/leases": {
            "get": {
              "operationId": "leases",
              "summary": "Lists the documents that are open on the volume's other devices.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "responses": {
                "200": {
                  "description": "At most 4096 leases.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/LeaseList"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"}
              }
            },
            "post": {
              "operationId": "tellLeases",
              "summary": "Tells which documents are open on this device, which replaces what it \#
        has told before. The leases end after 60 seconds unless they are told again.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/LeaseRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The hub has taken it, except items that it does not have.",
                  "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Done"}}}
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
          "DocumentUse": {"type": "string", "enum": ["shows", "wants", "edits"]},
          "Age": {
            "type": "integer",
            "minimum": 0,
            "maximum": 3153599999999999999,
            "description": "For how many nanoseconds the document has been open."
          },
          "LeaseRequest": {
            "type": "object",
            "properties": {
              "number": {"$ref": "#/components/schemas/Count"},
              "documents": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "item": {"$ref": "#/components/schemas/Id"},
                    "use": {"$ref": "#/components/schemas/DocumentUse"},
                    "age": {"$ref": "#/components/schemas/Age"}
                  },
                  "required": ["item", "use", "age"]
                },
                "maxItems": 128,
                "description": "All documents that are open, each once."
              }
            },
            "required": ["number", "documents"]
          },
          "LeaseList": {
            "type": "object",
            "properties": {
              "revision": {"$ref": "#/components/schemas/Count"},
              "leases": {
                "type": "array",
                "items": {
                  "type": "object",
                  "properties": {
                    "item": {"$ref": "#/components/schemas/Id"},
                    "device": {"$ref": "#/components/schemas/Id"},
                    "deviceName": {"type": "string"},
                    "user": {"type": "string"},
                    "use": {"$ref": "#/components/schemas/DocumentUse"},
                    "age": {"$ref": "#/components/schemas/Age"}
                  },
                  "required": ["item", "device", "deviceName", "user", "use", "age"]
                }
              }
            },
            "required": ["revision", "leases"]
          }
        }
        """#
}
